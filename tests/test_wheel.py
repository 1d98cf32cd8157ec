"""The wheel carries the configs and the shipped encoders: installed elsewhere, it trains."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
LARGEST_ENCODER = 20_000_000  # bytes


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True, cwd=folder)
    (found,) = folder.glob("encoderlab-*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_shipped_encoders_and_none_is_large(wheel):
    source = ROOT / "src" / "encoderlab" / "encoders"
    wanted = {
        str(path.relative_to(source.parents[1]))
        for path in source.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as opened:
        sizes = {
            info.filename: info.file_size
            for info in opened.infolist()
            if info.filename.startswith("encoderlab/encoders/")
        }
    assert sizes.keys() == wanted
    for folder in filter(Path.is_dir, source.iterdir()):
        assert sum(size for name, size in sizes.items() if Path(name).parent.name == folder.name) <= LARGEST_ENCODER


@pytest.mark.slow
def test_a_wheel_installed_elsewhere_runs_a_smoke_training(tmp_path, wheel):
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(tmp_path / "site"), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "ENCODERLAB_CACHE": str(tmp_path / "cache")}
    (tmp_path / "work").mkdir()
    where = "import encoderlab.cli.main; print(encoderlab.cli.main.config_folder())"
    found = subprocess.run(
        [sys.executable, "-c", where], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(tmp_path / "site" / "encoderlab" / "configs")
    smoke = ["train", "task=reverse", "training=smoke", "dataset.limit=100", "run_dir=run"]
    subprocess.run([sys.executable, "-m", "encoderlab", *smoke], env=environment, cwd=tmp_path / "work", check=True)
    assert (tmp_path / "work" / "run" / "report.json").is_file()

"""The wheel carries the configs: installed elsewhere, it trains."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_wheel_installed_elsewhere_runs_a_smoke_training(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path / "wheel"), str(ROOT)], check=True, cwd=tmp_path)
    (wheel,) = (tmp_path / "wheel").glob("encoderlab-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(tmp_path / "site"), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "ENCODERLAB_CACHE": str(tmp_path / "cache")}
    (tmp_path / "work").mkdir()
    where = "import encoderlab.cli; print(encoderlab.cli.config_folder())"
    found = subprocess.run([sys.executable, "-c", where], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(tmp_path / "site" / "encoderlab" / "configs")
    smoke = ["train", "task=reverse", "training=smoke", "dataset.limit=100", "run_dir=run"]
    subprocess.run([sys.executable, "-m", "encoderlab", *smoke], env=environment, cwd=tmp_path / "work", check=True)
    assert (tmp_path / "work" / "run" / "report.json").is_file()

"""The wheel, the container and the texts of the shipped encoder: what leaves this repository is complete."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import yaml

import encoderlab
from encoderlab.cli import main as cli

ROOT = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
MEGABYTES = 30  # the shipped encoder, the built-in rows and documents


@pytest.mark.slow
def test_a_wheel_installed_elsewhere_finetunes_the_encoder_that_it_carries(tmp_path):
    subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("encoderlab-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert sum(info.compress_size for info in opened.infolist()) < MEGABYTES * 1e6
        assert {"encoderlab/py.typed", "encoderlab/configs/train.yaml"} <= {*opened.namelist()}
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(tmp_path / "site"), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "ENCODERLAB_CACHE": str(tmp_path / "cache")}
    little = ["training.steps=2", "training.batch_size=8", "dataset.limit=200", "baselines=false", "run_dir=run"]
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-m", "encoderlab", "finetune", *little]
    subprocess.run(command, env=environment, cwd=tmp_path / "work", check=True)
    assert (tmp_path / "work" / "run" / "report.json").is_file()


def test_every_statement_of_the_version_is_that_of_pyproject(capsys):
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cli.run(["--version"])
    assert capsys.readouterr().out.strip() == encoderlab.__version__ == stated, "run scripts/setup"
    assert f"version: {stated}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## [{stated}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_kubernetes_job_types_a_command_that_encoderlab_accepts(capsys):
    _, job = yaml.safe_load_all((ROOT / "docs" / "train.job.yaml").read_text(encoding="utf-8"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    arguments = container["args"][container["args"].index("encoderlab") + 1 :]
    cli.run([*arguments, "--cfg", "job"])
    assert "path: /data/" in capsys.readouterr().out
    assert {"resume=auto"} <= {*arguments}, "a restarted pod resumes"
    user = re.search(r"^USER (\d+):", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert str(job["spec"]["template"]["spec"]["securityContext"]["runAsUser"]) == user


def test_the_container_and_the_wheelhouse_agree_on_their_variants(tmp_path):
    script = ROOT / "scripts" / "wheelhouse"
    done = subprocess.run([script, "rocm"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    declared = re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert (
        {*re.findall(r"--build-arg (\w+)=", script.read_text(encoding="utf-8"))} == {*declared} == {"BASE", "VARIANT"}
    )


def test_the_labelled_rows_of_the_shipped_encoder_are_those_of_frequent_labels_and_come_out_the_same(tmp_path):
    rows = {
        "emobank_valence": [("grim", "1.5"), ("plain", "2.8"), ("glad", "4.0")],
        "snips_intent": [("play it", "PlayMusic"), ("rain?", "GetWeather")],
    }
    source = (ROOT / "scripts" / "make_labelled").read_text(encoding="utf-8")
    code = re.sub(r"SETS = \[.*?\]", f"SETS = {[*rows]}", source, flags=re.DOTALL)
    for name, of_set in rows.items():
        lines = [f"{text} {n},{label}\n" for text, label in of_set for n in range(7 if text == "rain?" else 9)]
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt", encoding="utf-8") as file:
            file.write(f"text,label\n{''.join(lines)}")
    with gzip.open(tmp_path / "snli_dev_entailment.csv.gz", "wt", encoding="utf-8") as file:
        file.write("text_a,text_b,label\nA man eats,A man eats food,entailment\nA man eats,Nobody eats,contradiction\n")
    with gzip.open(tmp_path / "texts.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": f"This is document {n}, in one line."}) + "\n" for n in range(40))
    environment = {**os.environ, "LABELLED": str(tmp_path)}
    for name in ("a", "b"):
        command = [sys.executable, "-c", code, str(tmp_path / "texts.jsonl.gz"), str(tmp_path / name)]
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    with gzip.open(tmp_path / "a", "rt", encoding="utf-8", newline="") as file:
        counts = Counter((row["set"], row["label"]) for row in csv.DictReader(file))
    assert counts.pop(("", "")) > 20
    assert counts == {
        ("emobank_valence", "low"): 9,
        ("emobank_valence", "high"): 9,
        ("snips_intent", "PlayMusic"): 9,
        ("snli_dev_entailment", "sense 0"): 2,
        ("snli_dev_entailment", "against 0"): 1,
    }
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_texts_of_the_shipped_encoder_keep_only_free_licences_and_come_out_the_same(tmp_path):
    """Wikipedia, which needs a hub, is left out."""
    documents = [("a novel", "novels"), ("a talk", "talks"), ("a speech", "presidential speeches")]
    with gzip.open(tmp_path / "general-00.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text, "source": source}) + "\n" for text, source in documents)
    source = (ROOT / "scripts" / "make_corpus").read_text(encoding="utf-8")
    code = source.replace('load_dataset("wikimedia', '(lambda *_, **__: [])("wikimedia')
    environment = {**os.environ, "CORPUS": str(tmp_path)}
    for name in ("a", "b"):
        command = [sys.executable, "-c", code, str(tmp_path / name)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "Left out for their licence: talks (1)."
    with gzip.open(tmp_path / "a", "rt", encoding="utf-8") as file:
        assert sorted(json.loads(line)["text"] for line in file) == ["a novel", "a speech"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

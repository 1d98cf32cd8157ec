"""Hostile files: a model, checkpoint, config or table that was made to harm runs no code, and at worst gives one line."""

import io
import json
import os
import pickle
import re
import shutil
import struct
from pathlib import Path

import pytest
import torch

from encoderlab.cli import main as cli
from encoderlab.errors import DataError, UserError
from encoderlab.system.files import write_manifest
from encoderlab.training.checkpoint import STATE, WEIGHTS, read_state, read_weights, save_checkpoint, verified

SOURCE = Path(cli.__file__).parents[1]


BERT = ("model.positions=learned", "model.norm_position=post", "model.pooling=pooler", "model.d_model=16")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model folder in the format of transformers, whose files have no hashes."""
    folder = tmp_path_factory.mktemp("exported")
    little = ("training=smoke", "dataset.limit=60", "baselines=false", "model.n_layers=1", "model.n_heads=2")
    cli.run(["train", "task=brackets", *BERT, *little, f"run_dir={folder}/run", f"cache_dir={folder}"])
    cli.run(["export", f"run={folder}/run", f"path={folder}/model"])
    return folder / "model"


@pytest.fixture
def model(exported, tmp_path):
    """A copy that a test can damage."""
    return shutil.copytree(exported, tmp_path / "model")


def weights(header, body=b""):
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(content)) + content + body


def one_weight(dtype, shape, size):
    return weights({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}, bytes(min(size, 64)))


LYING_WEIGHTS = {
    "nothing": b"",
    "a header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "a header nested 100,000 times": weights(b"[" * 100_000),
    "a weight of petabytes": one_weight("F32", [2**50], 2**52),
    "a weight of negative size": one_weight("F32", [-1], 4),
    "a type that is none": one_weight("PICKLE", [1], 4),
    "a pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *[("model.safetensors", content) for content in LYING_WEIGHTS.values()],
        *[("config.json", content) for content in (b"", b"[]", b"null", b"[" * 100_000, bytes(range(256)))],
        *[("tokenizer.json", content) for content in (b"", b"null", b'{"a":' * 100_000)],
    ],
)
def test_a_file_of_a_model_that_is_not_what_it_should_be_is_refused(file, content, model, command):
    (model / file).write_bytes(content)
    with pytest.raises(UserError) as refused:
        command("predict", f"run={model}", "text=()")
    assert refused.value.exit_code in (2, 3) and str(refused.value).isprintable()


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Prepend", "prepend": "a " * 10_000},
        {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "("}, "content": "(" * 20}] * 3},
    ],
)
def test_a_tokenizer_that_would_fill_the_memory_with_one_text_is_refused(normalizer, model, command):
    file = model / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": normalizer}))
    with pytest.raises(DataError, match="its normalizer makes texts many times as long"):
        command("predict", f"run={model}", "text=()")


def test_weights_too_large_to_be_mapped_are_refused(model, command):
    file = model / "model.safetensors"
    file.write_bytes(one_weight("F32", [2**40], 2**42))
    with file.open("r+b") as opened:
        opened.truncate(len(file.read_bytes()) - 64 + 2**42)  # sparse: it takes no space
    with pytest.raises(DataError, match="is damaged"):
        command("predict", f"run={model}", "text=()")


@pytest.mark.parametrize(
    ("field", "value"), [("num_hidden_layers", "x"), ("hidden_size", -1), ("model_type", "llama"), ("id2label", [1])]
)
def test_a_config_that_does_not_fit_the_weights_is_refused(field, value, model, command):
    file = model / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
    with pytest.raises(UserError) as refused:
        command("predict", f"run={model}", "text=()")
    assert str(refused.value).isprintable()


def test_pickled_weights_are_never_opened(model, command):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(DataError):
        command("predict", f"run={model}", "text=()")


def test_a_config_is_plain_text_and_reads_no_environment_variable(brackets_run, command, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "what-nobody-may-see")
    run = shutil.copytree(brackets_run, tmp_path / "run")
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(re.sub(r"name: brackets", "name: '${oc.env:SECRET}'", text))
    command("eval", f"run={run}", f"run_dir={tmp_path / 'scored'}")
    written = [path for path in (tmp_path / "scored").rglob("*") if path.is_file()]
    assert all(b"what-nobody-may-see" not in path.read_bytes() for path in written)


@pytest.mark.slow
def test_a_report_on_the_screen_contains_no_escape_sequences(command, tmp_path, capsys):
    names = ["\x1b[31mred", "\x1b]0;owned\x07", "../../../out"]
    rows = "".join(f"text {n} of many,{names[n % 3]}\n" for n in range(60))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    data = ("task=classification", "dataset=files", f"dataset.path={tmp_path}/rows.csv", "training=smoke")
    command("train", *data, "model=tiny", "model.d_model=16", "model.n_heads=2", f"run_dir={tmp_path}/run")
    assert not set(capsys.readouterr().err) & set("\x1b\x07")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "run"]


UNSAFE = re.compile(
    r"allow_pickle\s*=\s*True|weights_only\s*=\s*False|trust_remote_code\s*=\s*True|yaml\.(unsafe_load|full_load|Loader)"
    r"|pickle\.load|pd\.read_pickle|joblib\.load|shelve"
)


def test_the_source_opens_no_pickles():
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert [name for name, text in texts.items() if UNSAFE.search(text) and name != "data/processes.py"] == []
    loads = [call for text in texts.values() for call in re.findall(r"torch\.load\([^)]*\)", text)]
    assert loads and all("weights_only=True" in call for call in loads)


class Harmful:
    """An object that calls something when unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("a file that only foreign code makes"),)


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


STATES = {
    "nothing": lambda: b"",
    "a pickle that runs code": lambda: pickle.dumps({"step": 1, "x": Harmful()}),
    "code in torch's form": lambda: saved({"step": 1, "x": Harmful()}),
    "a function by its name": lambda: saved({"step": 1, "x": os.system}),
    "another step": lambda: saved({"step": 2}),
    "no dictionary": lambda: saved([1, 2]),
}


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return save_checkpoint(tmp_path / "checkpoints", 1, {"x": torch.zeros(1)}, {"step": 1})


@pytest.mark.parametrize("name", STATES)
def test_a_checkpoints_state_runs_no_code_even_if_its_hash_is_right(name, checkpoint, tmp_path):
    (checkpoint / STATE).write_bytes(STATES[name]())
    write_manifest(checkpoint, [WEIGHTS, STATE], step=1)
    with pytest.raises(DataError):
        read_state(checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


@pytest.mark.parametrize("name", LYING_WEIGHTS)
def test_lying_weights_of_a_checkpoint_are_refused_even_if_their_hash_is_right(name, checkpoint):
    (checkpoint / WEIGHTS).write_bytes(LYING_WEIGHTS[name])
    write_manifest(checkpoint, [WEIGHTS, STATE], step=1)
    with pytest.raises(DataError):
        read_weights(checkpoint)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sha256": []}', b"\xff", b'{"step": 1, "sha256": {"../../x": ""}}'])
def test_a_checkpoint_with_an_invalid_manifest_counts_as_damaged(content, checkpoint):
    (checkpoint / "manifest.json").write_bytes(content)
    assert not verified(checkpoint)


LAUGHS = "".join(
    f"{name}: &{name} [{', '.join([f'*{inner}'] * 9)}]\n" for name, inner in zip("bcdefghi", "abcdefgh", strict=True)
)
HOSTILE_YAML = {
    "a list in itself": "a: &a [*a]\n",
    "a mapping in itself": "model: &m {name: *m}\n",
    "aliases that multiply": f"a: &a [x]\n{LAUGHS}",
    "deep nesting": "[" * 100_000,
    "nesting that just fits": f"a: {'{b: ' * 200}1{'}' * 200}\n",
}


@pytest.mark.parametrize("name", HOSTILE_YAML)
def test_settings_of_a_run_that_would_fill_memory_or_stack_are_refused(name, brackets_run, command, tmp_path):
    run = shutil.copytree(brackets_run, tmp_path / "run")
    settings = (run / "config.yaml").read_text(encoding="utf-8")
    for content in (HOSTILE_YAML[name], f"{settings}\n{HOSTILE_YAML[name]}"):
        (run / "config.yaml").write_text(content, encoding="utf-8")
        for words in (["eval", f"run={run}"], ["compare", f"{run}", f"{brackets_run}"]):
            with pytest.raises(UserError):
                command(*words)
        (run / "report.json").rename(tmp_path / "report.json")
        with pytest.raises(UserError):
            command("train", f"resume={run}")
        (tmp_path / "report.json").rename(run / "report.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
@pytest.mark.parametrize("name", ["config.yaml", "environment.json"])
@pytest.mark.parametrize("endless", ["pipe", "device"])
def test_a_record_that_may_never_end_is_not_read(endless, name, brackets_run, command, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(brackets_run, run)
    (run / name).unlink()
    if endless == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to("/dev/zero")
    for line in (["train", f"resume={run}"], ["compare", str(run), str(brackets_run)]):
        with pytest.raises(UserError, match=re.escape(name)):
            command(*line)

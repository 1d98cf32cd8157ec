"""Hostile files: models, tokenizers, tables and configs that were made to harm are at worst refused, in one line and
little memory.
"""

import gzip
import io
import json
import os
import pickle
import re
import resource
import shutil
import struct
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml

from encoderlab.cli import main as cli
from encoderlab.data.files.files import FilesDataset
from encoderlab.data.files.text_files import most_unpacked
from encoderlab.errors import DataError, SettingError, UserError
from encoderlab.system.bounded_yaml import load_yaml
from encoderlab.system.files import MANIFEST, write_manifest
from encoderlab.training.checkpoint import (
    STATE,
    WEIGHTS,
    read_state,
    read_weights,
    save_checkpoint,
    verified,
)
from tests.commands.conftest import run

SOURCE = Path(cli.__file__).parents[1]
SHAPE = ("model=tiny", "model.n_layers=1", "model.d_model=16", "model.n_heads=2", "model.max_length=32")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model folder of ours and the same model as one of transformers."""
    home = tmp_path_factory.mktemp("hostile")
    os.environ["ENCODERLAB_CACHE"] = str(home / "cache")
    smoke = ("training=smoke", "training.steps=1", "training.threads=1", "dataset.limit=60", "baselines=false")
    run("train", "task=brackets", *SHAPE, *smoke, f"run_dir={home / 'run'}")
    run("export", f"run={home / 'run'}", f"path={home / 'huggingface'}")
    (home / "run" / "model" / MANIFEST).unlink()  # whoever makes a hostile folder would make its manifest, too
    return {"ours": home / "run" / "model", "huggingface": home / "huggingface", "run": home / "run"}


@contextmanager
def little_memory(most=2 * 10**9):
    """Allow the process `most` more bytes of address space inside; loading a model of a megabyte takes some of them."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def refused_or_answered(folder, capsys, text="(())"):
    """Return the error of `predict`, or "" if it answers."""
    capsys.readouterr()
    try:
        with little_memory():
            run("predict", f"run={folder}", f"text={text}", "threads=1")
    except UserError as refused:
        assert 1 <= refused.exit_code <= 4 and str(refused).isprintable() and len(str(refused)) < 10_000
        return str(refused)
    assert "predicted" in capsys.readouterr().out
    return ""


def safetensors_file(header, body=b""):
    header_bytes = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header_bytes)) + header_bytes + body


def one(dtype, shape, size):
    return safetensors_file({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}, bytes(min(size, 64)))


LYING_WEIGHTS = {
    "nothing": b"",
    "a header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "a header that is not there": struct.pack("<Q", 90_000_000) + b"{",
    "a header nested 100,000 times": safetensors_file(b"[" * 100_000),
    "a weight of petabytes": one("F32", [2**50], 2**52),
    "a weight of too many numbers to count": one("F32", [2**40, 2**40], 4),
    "a weight of no numbers in 2^60 rows": one("F32", [2**60, 0], 0),
    "a weight of negative size": one("F32", [-1], 4),
    "a type that is none": one("PICKLE", [1], 4),
    "whole numbers": one("I64", [1], 8),
    "complex numbers": one("C64", [1], 8),
    "floats of 8 bits": one("F8_E5M2", [4], 4),
    "an escape sequence for a name": safetensors_file(
        {"\x1b[31m\n": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)
    ),
    "a hundred thousand weights": lambda: safetensors_file(  # takes a second: made only if it is tried
        {f"x{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(100_000)}
    ),
    "a pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "a zip bomb's beginning": b"PK\x03\x04" + bytes(200),
}


def lying_weights(name):
    content = LYING_WEIGHTS[name]
    return content() if callable(content) else content


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ours", "huggingface"])
@pytest.mark.parametrize("name", LYING_WEIGHTS)
def test_inconsistent_weights_are_refused(name, kind, folders, tmp_path, capsys):
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    (folder / "model.safetensors").write_bytes(lying_weights(name))
    assert refused_or_answered(folder, capsys)


@pytest.mark.parametrize("kind", ["ours", "huggingface"])
def test_overlapping_weights_are_refused(kind, folders, tmp_path, capsys):
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    content = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    first, second = [name for name in header if name != "__metadata__"][:2]
    header[first]["data_offsets"] = header[second]["data_offsets"]
    (folder / "model.safetensors").write_bytes(safetensors_file(header, body))
    assert "damaged" in refused_or_answered(folder, capsys)


def changed(content, path, value):
    """Return the JSON with `value` at `path`, whose names are separated by dots."""
    *outer, last = path.split(".")
    inner = content
    for name in outer:
        inner = inner[name]
    inner[last] = value
    return json.dumps(content)


OURS = {
    "layers": ("encoderlab.model.n_layers", 10**9),
    "a thousand layers": ("encoderlab.model.n_layers", 1000),
    "width": ("encoderlab.model.d_model", 10**9),
    "a width of 65,536": ("encoderlab.model.d_model", 65_536),
    "length": ("encoderlab.model.max_length", 10**12),
    "feed-forward width": ("encoderlab.model.d_ff", 10**12),
    "heads": ("encoderlab.model.n_heads", 10**9),
    "segments": ("encoderlab.model.segments", 10**12),
    "NaN": ("encoderlab.model.layers", float("nan")),
    "a text for a model": ("encoderlab.model", "x"),
    "another schema": ("encoderlab.model", {"schema": "os.system"}),
    "a schema without a size": ("encoderlab.model", {"schema": "as_pretrained"}),
    "a list for a schema": ("encoderlab.tokenizer", {"schema": ["x"]}),
    "a target to be called": ("encoderlab.model._target_", "os.system"),
    "another target": ("encoderlab._target_", "os.system"),
    "a task's name that leads elsewhere": ("encoderlab.task.name", "../../../x"),
    "threads": ("encoderlab.training.threads", 10**9),
    "labels with holes": ("id2label", {"0": "a", "5": "b"}),
    "a list of labels": ("id2label", ["a", "b"]),
    "labels that are none": ("id2label", {"0": 1, "1": [2]}),
    "a label twice": ("id2label", {"0": "a", "1": "a"}),
    "50,000 labels": ("id2label", {str(n): str(n) for n in range(50_000)}),
    "no labels": ("id2label", {}),
    "an origin that is none": ("origin", "x"),
    "an origin of other types": ("origin", {"checkpoint": 5, "paired": "x", "fingerprints": 7}),
}
THEIRS = {
    "layers": ("num_hidden_layers", 10**9),
    "a thousand layers": ("num_hidden_layers", 1000),
    "width": ("hidden_size", 10**9),
    "a width of 65,536": ("hidden_size", 65_536),
    "length": ("max_position_embeddings", 10**12),
    "vocabulary": ("vocab_size", 2**31),
    "a number of 400 digits": ("vocab_size", 10**400),
    "padding beyond the vocabulary": ("pad_token_id", 10**9),
    "a text for a number": ("hidden_size", "16"),
    "labels with holes": ("id2label", {"0": "a", "5": "b"}),
    "labels that are none": ("id2label", {"0": 1, "1": [2]}),
    "an escape sequence for a kind": ("model_type", "\x1b[31mbert"),
    "another kind": ("model_type", "llama"),
    "architectures nested": ("architectures", [["BertModel"]]),
}


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [("ours", *case) for case in OURS.values()] + [("huggingface", *case) for case in THEIRS.values()],
    ids=[f"ours, {name}" for name in OURS] + [f"huggingface, {name}" for name in THEIRS],
)
def test_a_config_with_absurd_values_is_refused_before_memory_runs_out(kind, path, value, folders, tmp_path, capsys):
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    file = folder / "config.json"
    file.write_text(changed(json.loads(file.read_text()), path, value))
    assert refused_or_answered(folder, capsys)


@pytest.mark.parametrize("kind", ["ours", "huggingface"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"NaN",
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"model_type": ' + b"9" * 10_000 + b"}",
        bytes(range(256)),
        b" " * 10**7 + b"{}",
    ],
    ids=["nothing", "a list", "null", "NaN", "nested objects", "nested lists", "10,000 digits", "bytes", "10 MB"],
)
def test_a_file_that_is_not_a_config_is_refused(kind, content, folders, tmp_path, capsys):
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    (folder / "config.json").write_bytes(content)
    assert refused_or_answered(folder, capsys)


def test_an_interpolation_in_a_models_config_is_plain_text_and_reads_no_environment_variable(
    folders, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("SECRET", "what-nobody-may-see")
    folder = shutil.copytree(folders["ours"], tmp_path / "model")
    file = folder / "config.json"
    file.write_text(changed(json.loads(file.read_text()), "encoderlab.task.name", "${oc.env:SECRET}"))
    run("export", f"run={folder}", f"path={tmp_path / 'out'}")
    assert all(b"what-nobody-may-see" not in path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert refused_or_answered(folder, capsys) == ""


def test_pickled_weights_are_never_opened(folders, tmp_path, capsys):
    folder = shutil.copytree(folders["huggingface"], tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "a format that can run code" in refused_or_answered(folder, capsys)


TOKENIZERS = {
    "nothing": lambda content: "",
    "null": lambda content: "null",
    "nested": lambda content: '{"a":' * 100_000,
    "an id of 2^31": lambda content: changed(content, "model.vocab.evil", 2**31),
    "an id of 2^32": lambda content: changed(content, "model.vocab.evil", 2**32 - 1),
    "a negative id": lambda content: changed(content, "model.vocab.evil", -1),
    "texts that grow a million times": lambda content: changed(
        content,
        "normalizer",
        {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "("}, "content": "(" * 10}] * 6},
    ),
    "a pattern that is none": lambda content: changed(
        content,
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "((("}, "behavior": "Isolated", "invert": False},
    ),
    "a pattern that takes for ever": lambda content: changed(
        content,
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
    ),
    "no unknown token": lambda content: changed(content, "model.unk_token", "nope"),
    "no special tokens": lambda content: json.dumps(
        content | {"added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    ),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_malicious_tokenizer_is_refused(name, folders, tmp_path, capsys):
    folder = shutil.copytree(folders["ours"], tmp_path / "model")
    file = folder / "tokenizer.json"
    file.write_text(TOKENIZERS[name](json.loads(file.read_text())))
    assert refused_or_answered(folder, capsys, text="((" + "a" * 40 + ")")


@pytest.mark.parametrize("content", ['{"cls_token": ["x"]}', '{"cls_token": {"a": 1}}', '{"a":' * 100_000, "\x00"])
def test_invalid_special_tokens_are_refused(content, folders, tmp_path, capsys):
    folder = shutil.copytree(folders["ours"], tmp_path / "model")
    (folder / "tokenizer_config.json").write_text(content)
    assert "tokenizer_config.json is damaged" in refused_or_answered(folder, capsys)


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
        "[" * 50_000,
        "x\n" * 6_000_000,
        "!!python/object/apply:os.system [ls]",
    ],
)
def test_yaml_that_explodes_or_names_code_is_refused(text):
    with little_memory(), pytest.raises((ValueError, yaml.YAMLError, RecursionError)):
        load_yaml(text)


def test_plain_yaml_and_its_aliases_are_read():
    assert load_yaml("a: &a [1, 2]\nb: *a\n") == {"a": [1, 2], "b": [1, 2]}
    assert load_yaml("") is None


@pytest.fixture
def config_folder(tmp_path, monkeypatch):
    """Write a model's config into a folder for --config-dir, and train with it."""
    monkeypatch.chdir(tmp_path)

    def trained_with(content, group="model"):
        (tmp_path / "mine" / group).mkdir(parents=True)
        (tmp_path / "mine" / group / "evil.yaml").write_text(content)
        run("train", "--config-dir", tmp_path / "mine", f"{group}=evil")

    return trained_with


MARK = "a file that only foreign code makes"
CODE = {
    "a callback": f"hydra:\n  callbacks:\n    evil: {{_target_: pathlib.Path.touch, self: {MARK}}}\n",
    "a launcher": "hydra:\n  launcher: {_target_: os.system}\n",
    "a sweeper": "hydra:\n  sweeper: {_target_: os.system}\n",
    "a handler of logs": "hydra:\n  job_logging:\n    handlers:\n      evil: {class: subprocess.Popen, args: [ls]}\n",
    "a factory of logs": "hydra:\n  job_logging:\n    formatters:\n      evil: {'()': os.system, command: ls}\n",
    "a class behind another's name": "hydra:\n  hydra_logging:\n    handlers:\n      evil: {class: logging.os.system, command: ls}\n",
    "a module to be imported": "hydra:\n  job_logging:\n    handlers:\n      evil: {class: logging.StreamHandler, stream: 'ext://antigravity'}\n",
    "a module in two halves": "hydra:\n  job_logging:\n    handlers:\n      evil: {class: logging.StreamHandler, stream: '${oc.decode:ext}://os'}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_no_config_file_makes_hydra_run_code(name, config_folder, tmp_path):
    with pytest.raises(SettingError, match="names code to run"):
        config_folder(f"# @package _global_\n{CODE[name]}", group="experiment")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("defaults: [model_schema, _self_]\n_target_: os.system\n", "_target_"),
        ("defaults: [model_schema, _self_]\nn_layers: 1000000000\n", "model.n_layers is 1000000000"),
        ("defaults: [model_schema, _self_]\nn_layers: '${oc.env:HOME}'\n", "HOME"),
        (LAUGHS, "has more than 100,000 values"),
        ("!!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("[" * 50_000, "nested more than 100 times"),
        ("\x1b[31m", "control characters are not allowed"),
    ],
    ids=["target", "layers", "interpolation", "aliases", "tag", "nested", "escape"],
)
def test_a_malicious_config_file_is_refused(content, message, config_folder):
    with little_memory(), pytest.raises(SettingError, match=re.escape(message)) as refused:
        config_folder(content)
    assert str(refused.value).isprintable()


def test_a_malicious_config_of_a_run_is_refused(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content in (
        LAUGHS,
        "[" * 50_000,
        "!!python/object/apply:os.system [ls]",
        "model: {schema: model, _target_: os.system}",
        "a: *b",
    ):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(folders["run"], tmp_path / "run")
        (tmp_path / "run" / "report.json").unlink()
        (tmp_path / "run" / "config.yaml").write_text(content)
        with little_memory(), pytest.raises(UserError) as refused:
            run("train", "resume=run")
        assert 1 <= refused.value.exit_code <= 4 and str(refused.value).isprintable()


def error_of(path, **given):
    with little_memory(), pytest.raises(DataError) as refused:
        FilesDataset(path=str(path), validation_fraction=0, **given).load(path.parent)
    assert str(refused.value).isprintable()
    return str(refused.value).replace(f"{path.parent}/", "")


def bomb(path, first, repeated, times):
    """Return a gzip file of `first` followed by `times` mebibytes of `repeated`, made without holding them in memory."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = (repeated * (2**20 // len(repeated) + 1))[: 2**20 // len(repeated) * len(repeated)]
    with path.open("wb") as file:
        file.write(compressor.compress(first))
        for _ in range(times):
            file.write(compressor.compress(block))
        file.write(compressor.flush())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "repeated", "message"),
    [
        (b"text,label\n", b"x" * 999 + b",a\n", "unpacks to more than"),
        (b"text,label\n", b"x", "is longer than"),
        (b'text,label\n"', b"x\n", "of more than"),
    ],
    ids=["rows", "a line", "a cell"],
)
def test_a_decompression_bomb_is_refused_early(first, repeated, message, tmp_path):
    bomb(tmp_path / "rows.csv.gz", first, repeated, 120)
    assert most_unpacked(tmp_path / "rows.csv.gz") < 120 * 2**20
    assert message in error_of(tmp_path / "rows.csv.gz")


def test_the_limit_grows_with_the_file_and_real_texts_stay_below_it(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"x" * 1000))
    assert most_unpacked(path) == 2**26 + 50 * path.stat().st_size
    os.truncate(path, 2**40)
    assert most_unpacked(path) == 2**42


@pytest.mark.parametrize("kept", [True, False], ids=["as dictionaries", "as texts"])
def test_a_parquet_bomb_is_refused_early(kept, tmp_path):
    text = pa.array(["x" * 2**16]).dictionary_encode()
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), text.dictionary)
    pq.write_table(
        pa.table({"text": rows, "label": rows}), tmp_path / "rows.parquet", compression="zstd", store_schema=kept
    )
    assert "unpacks to more than" in error_of(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    ("name", "content", "escaped"),
    [
        ("rows.csv", b"te\x1b[31mxt,label\nx,a\n", "Allowed: te\\x1b[31mxt, label"),
        ("rows.csv", "te\u202ext,label\nx,a\n".encode(), "Allowed: te\\u202ext, label"),
        ("rows.csv", b'"te\r\nxt",label\nx,a\n', "Allowed: te xt, label"),
        ("rows.csv", b"text,label\nx,\x1b]0;owned\x07\ny,\x1b]0;owned\x07 \n", "\\x1b]0;owned\\x07"),
        ("rows.jsonl", b'{"te\\u001b[2Jxt": "x", "label": "a"}\n', "Allowed: te\\x1b[2Jxt, label"),
        ("rows.csv", b"x" * 10**6 + b",label\nx,a\n", "..."),
        ("rows.csv", b"text,label\nx," + b"0" * 10**6 + b"x\ny,1\nz,1 \n", "line 3 has the label '1'"),
        ("rows.csv", b"text,label\nx," + b"9" * 5000 + b"\ny,1\nz,1.0\n", "line 3 has the label '1'"),
    ],
    ids=[
        "escape in a name",
        "turned writing",
        "line end in a name",
        "escape in a label",
        "escape in JSON",
        "a name of a megabyte",
        "zeros",
        "digits",
    ],
)
def test_a_files_content_is_escaped_for_the_terminal(name, content, escaped, tmp_path):
    (tmp_path / name).write_bytes(content)
    message = error_of(tmp_path / name)
    assert escaped in message and len(message) < 10_000


@pytest.mark.slow
def test_a_report_on_the_screen_contains_no_escape_sequences(tmp_path, monkeypatch, capsys):
    labels = ["\x1b[31mred", "\x1b]0;owned\x07", "$x^$\u202e", "../../../out"]
    rows = "".join(f"text {n} of many,{labels[n % 4]}\n" for n in range(60))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    smoke = (
        "training=smoke",
        "training.steps=1",
        "training.threads=1",
        "baselines=false",
        "tokenizer.vocabulary_size=200",
    )
    run("train", "task=classification", "dataset=files", "dataset.path=rows.csv", *SHAPE, *smoke, "run_dir=run")
    errors = capsys.readouterr().err
    assert "\\x1b[31mred" in errors and not set(errors) & set("\x1b\x07\u202e")
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert set(report["splits"][report["scored_split"]]["per_class"]) == set(labels)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "run"]


UNSAFE = re.compile(
    r"allow_pickle\s*=\s*True|weights_only\s*=\s*False|trust_remote_code\s*=\s*True|yaml\.(unsafe_load|full_load|Loader|UnsafeLoader)|\b_target_\s*=|pd\.read_pickle|joblib\.load|shelve"
)


def test_the_source_opens_no_pickles_and_runs_no_foreign_code():
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert [name for name, text in texts.items() if UNSAFE.search(text)] == []
    assert [name for name, text in texts.items() if "pickle.load" in text] == [
        "data/processes.py"
    ]  # from this process, in its own workers
    loads = [call for text in texts.values() for call in re.findall(r"torch\.load\([^)]*\)", text)]
    assert loads and all("weights_only=True" in call for call in loads)


class Harmful:
    """An object that calls something when unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("a file that only foreign code makes"),)


def saved(content, **options):
    file = io.BytesIO()
    torch.save(content, file, **options)
    return file.getvalue()


def zipped_without_end():
    """Return a zip file with the names of a state that unpacks to 2.5 GB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("archive/version", "3\n")
        with archive.open("archive/data.pkl", "w", force_zip64=True) as member:
            for _ in range(40):
                member.write(bytes(2**26))
    return file.getvalue()


# Of the lying weights, those that are damaged as they stand; others only do not fit a model.
FITTING = ("no numbers", "whole numbers", "complex", "8 bits", "escape sequence", "hundred thousand")
WEIGHTS_OF_CHECKPOINTS = [name for name in LYING_WEIGHTS if not any(words in name for words in FITTING)]
STATES = {
    "nothing": lambda: b"",
    "a pickle that runs code": lambda: pickle.dumps({"step": 1, "x": Harmful()}),
    "code in an older form": lambda: saved({"step": 1, "x": Harmful()}, _use_new_zipfile_serialization=False),
    "code in today's form": lambda: saved({"step": 1, "x": Harmful()}),
    "a function by its name": lambda: saved({"step": 1, "x": os.system}),
    "another step": lambda: saved({"step": 2}),
    "no dictionary": lambda: saved([1, 2]),
    "a text for a step": lambda: saved({"step": "1"}),
    "a zip file that unpacks without end": zipped_without_end,
    "random bytes": lambda: bytes(range(256)) * 40,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_a_checkpoints_state_runs_no_code_even_if_its_hash_is_right(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoint = save_checkpoint(tmp_path / "checkpoints", 1, {"x": torch.zeros(1)}, {"step": 1})
    (checkpoint / STATE).write_bytes(STATES[name]())
    write_manifest(checkpoint, [WEIGHTS, STATE], step=1)
    with little_memory(), pytest.raises(DataError) as refused:
        read_state(checkpoint)
    assert str(refused.value).isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


@pytest.mark.parametrize("name", WEIGHTS_OF_CHECKPOINTS)
def test_inconsistent_weights_of_a_checkpoint_are_refused_even_if_their_hash_is_right(name, tmp_path):
    checkpoint = save_checkpoint(tmp_path / "checkpoints", 1, {"x": torch.zeros(1)}, {"step": 1})
    (checkpoint / WEIGHTS).write_bytes(lying_weights(name))
    write_manifest(checkpoint, [WEIGHTS, STATE], step=1)
    with little_memory(), pytest.raises(DataError) as refused:
        read_weights(checkpoint)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"sha256": []}',
        b'{"a":' * 100_000,
        b"\xff",
        b'{"step": 1, "sha256": {"../../x": ""}}',
        b"9" * 10_000,
    ],
)
def test_a_checkpoint_with_an_invalid_manifest_counts_as_damaged(content, tmp_path):
    checkpoint = save_checkpoint(tmp_path / "checkpoints", 1, {"x": torch.zeros(1)}, {"step": 1})
    (checkpoint / MANIFEST).write_bytes(content)
    assert not verified(checkpoint)

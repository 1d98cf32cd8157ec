"""Verifying a run: an untouched one is good in every part, and every change is found and named."""

import json
from dataclasses import fields, replace

import pytest
import safetensors.torch
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.config.command_settings import DistillConfig, RunConfig
from encoderlab.config.schemas import settings_from_dict, settings_to_dict
from encoderlab.data.sources.generated import BracketsDataset
from encoderlab.data.tokenizers.config import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.model.config import ModelConfig
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.distillation.teacher_files import teacher_fingerprints
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.inspection.verification import findings
from encoderlab.runs.models.assembly import assemble
from encoderlab.runs.models.saved_model import HASHED, Origin, save_model
from encoderlab.system.device import choose_compute
from encoderlab.system.manifest import write_manifest
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.checkpoint import save_checkpoint
from encoderlab.training.config import TrainingConfig

pytestmark = pytest.mark.usefixtures("same_threads")
ROWS = BracketsDataset(train_rows=8, validation_rows=4, test_rows=4, pairs=4)


def finished_run(root, cache):
    """Return a folder with the files of a finished run, without training."""
    config = RunConfig(
        cache_dir=str(cache),
        task=ClassificationConfig(name="brackets"),
        dataset=ROWS,
        tokenizer=SymbolsConfig(),
        model=ModelConfig(n_layers=1, d_model=8, n_heads=2, max_length=16),
        training=TrainingConfig(),
    )
    corpus = Corpus.load(config.dataset, cache)
    assembly = assemble(config, choose_compute("cpu", "fp32", 1), corpus)
    folder = RunFolder(root)
    root.mkdir()
    folder.config.write_text(yaml.safe_dump(settings_to_dict(assembly.config)), encoding="utf-8")
    record = {"command": "train", "dataset": corpus.description()}
    folder.environment.write_text(json.dumps(record), encoding="utf-8")
    origin = Origin({"step": 2, "chosen_by": None, "chosen_on": None}, False, corpus.fingerprints())
    saved = assembly.saved(origin)
    save_model(saved, folder.model, "# brackets\n")
    for step in (1, 2):
        save_checkpoint(folder.checkpoints, step, saved.weights, {"step": step})
    folder.report.write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run", tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run that every test leaves unchanged."""
    folder = tmp_path_factory.mktemp("kept")
    return finished_run(folder / "run", folder)


def bad(folder):
    """Return the parts of a run that are not good, with their descriptions."""
    return {finding.part: finding.words for finding in findings(folder, str(folder.root.parent)) if not finding.good}


def test_an_untouched_run_is_good_in_every_part(kept):
    found = list(findings(kept, str(kept.root.parent)))
    assert [finding.part for finding in found] == [
        "config.yaml",
        "data",
        "model",
        "checkpoints/step-1",
        "checkpoints/step-2",
    ]
    assert all(finding.good for finding in found)


def test_an_unfinished_run_is_compared_with_the_model_it_will_have(run):
    for path in run.model.iterdir():
        path.unlink()
    run.model.rmdir()
    run.report.unlink()
    save_checkpoint(run.checkpoints, 3, {"encoder.weight": torch.zeros(2)}, {"step": 3})
    assert bad(run).keys() == {"checkpoints/step-3"}


def make_infinite(run):
    path = run.model / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    next(iter(weights.values()))[0] = torch.nan
    safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
    write_manifest(run.model, HASHED)


def take_the_state(run):
    (run.checkpoints / "step-1" / "state.pt").unlink()


def change_the_rows(run):
    run.config.write_text(run.config.read_text().replace("data_seed: 0", "data_seed: 1"))


def of_another_shape(run):
    save_checkpoint(run.checkpoints, 9, {"encoder.weight": torch.zeros(2)}, {"step": 9})


def of_another_size(run):
    path = run.model / "config.json"
    path.write_text(path.read_text().replace('"d_model": 8', '"d_model": 16'))
    write_manifest(run.model, HASHED)


def without_a_folder(run):
    run.model.rename(run.root / "elsewhere")


DAMAGE = {
    make_infinite: ("model", "not finite"),
    take_the_state: ("checkpoints/step-1", "is damaged"),
    change_the_rows: ("data", "the rows have changed since the run was started: test, train, validation"),
    of_another_shape: ("checkpoints/step-9", "does not match the config: encoder"),
    of_another_size: ("model", "do not match its config"),
    without_a_folder: ("model", "missing"),
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_part_is_named_with_its_damage(run, damage):
    damage(run)
    part, words = DAMAGE[damage]
    found = bad(run)
    assert found.keys() == {part}
    assert words in found[part]


@settings(max_examples=60)
@given(st.sampled_from(HASHED), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_any_changed_byte_of_a_model_is_found(kept, name, place, change):
    path = kept.model / name
    content = path.read_bytes()
    position = int(place * len(content))
    path.write_bytes(content[:position] + bytes([content[position] ^ change]) + content[position + 1 :])
    try:
        found = bad(RunFolder(kept.model))
    finally:
        path.write_bytes(content)
    assert found == {"model": f"{name}: missing, or different from manifest.json"}


def test_a_checkpoint_that_was_set_aside_is_bad_only_if_nothing_else_is_left(run):
    one, two = (run.checkpoints / f"step-{step}" for step in (1, 2))
    one.rename(run.checkpoints / "corrupt-step-1")
    run.report.unlink()
    assert bad(run) == {}
    two.rename(run.checkpoints / "corrupt-step-2")
    assert bad(run).keys() == {"checkpoints/corrupt-step-1", "checkpoints/corrupt-step-2"}


def test_folds_that_have_not_begun_are_bad_once_the_run_is_finished(run):
    config = yaml.safe_load(run.config.read_text()) | {"folds": 2}
    run.config.write_text(yaml.safe_dump(config))
    finished_run(run.fold(1), run.root.parent)
    assert bad(run) == {"fold-2": "has not begun"}
    run.report.unlink()
    assert bad(run) == {}
    make_infinite(replace(run, root=run.fold(1)))
    assert bad(run).keys() == {"fold-1, model"}


def test_a_model_folder_is_verified_without_its_run(run):
    model = RunFolder(run.model.rename(run.root.parent / "model"))
    (finding,) = findings(model, str(run.root.parent))
    assert finding.part == "model" and finding.good


@pytest.mark.parametrize("content", [None, "[]", '{"command": "eval"}', "{"])
def test_a_folder_whose_record_is_not_of_training_is_refused(run, content):
    run.environment.unlink()
    if content is not None:
        run.environment.write_text(content)
    with pytest.raises(DataError):
        list(findings(run, str(run.root.parent)))


@pytest.mark.parametrize("dataset", [[1], {"splits": [1]}, {"splits": {"train": "f"}}])
def test_a_damaged_record_of_rows_is_reported_as_bad_data(run, dataset):
    run.environment.write_text(json.dumps({"command": "train", "dataset": dataset}))
    assert list(bad(run)) == ["data"]


def test_data_that_is_gone_is_bad_and_the_model_is_verified_all_the_same(run):
    config = yaml.safe_load(run.config.read_text())
    config["dataset"] = {"schema": "files", "path": str(run.root / "gone.csv")}
    run.config.write_text(yaml.safe_dump(config))
    found = list(findings(run, str(run.root.parent)))
    assert [finding.part for finding in found if not finding.good] == ["data"]
    assert "gone.csv" in next(finding.words for finding in found if finding.part == "data")
    assert {"model", "checkpoints/step-2"} <= {finding.part for finding in found if finding.good}


@pytest.fixture
def distilled(run, tmp_path):
    """An unfinished distillation, and the weights of its teacher."""
    teacher = finished_run(tmp_path / "teacher", tmp_path)
    config = settings_from_dict(yaml.safe_load(run.config.read_text()), RunConfig)
    own = {field.name: getattr(config, field.name) for field in fields(config)}
    student = DistillConfig(**own, teacher=str(teacher.root))
    run.config.write_text(yaml.safe_dump(settings_to_dict(student)))
    record = json.loads(run.environment.read_text()) | {"command": "distill", "files": teacher_fingerprints(student)}
    run.environment.write_text(json.dumps(record))
    run.report.unlink()
    return run, teacher.model / "model.safetensors"


def test_the_teacher_of_an_unfinished_student_is_verified(distilled):
    run, weights = distilled
    assert bad(run) == {}
    assert "teacher" in {finding.part for finding in findings(run, str(run.root.parent))}
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert bad(run) == {"teacher": "the files have changed since the run was started: teacher"}
    weights.parent.rename(run.root / "moved")
    assert list(bad(run)) == ["teacher"]
    run.report.write_text("{}")
    assert bad(run) == {}, "a finished student needs it no more"

"""A linear model of n-grams beside the network: what it adds, wherever the model predicts, and how its files are read."""

import json
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import encoderlab
from encoderlab.errors import DataError, SettingError, UserError
from encoderlab.runs import fit_branch
from tests.conftest import trained

WORDS = ["warm", "witty", "dull", "empty", "film", "plot", "cast", "slow"]
SMALL = ("model=tiny", "model.n_layers=1", "model.d_model=16", "model.n_heads=2", "tokenizer.vocabulary_size=120")
SHORT = ("training=smoke", "training.steps=4", "training.device=cpu", "baselines=false")


def films(folder, target):
    """Write films for each split, with the `target` of their words, and return the settings that name them."""
    settings = ["dataset=files", *SMALL]
    random = np.random.default_rng(0)
    for name, n_rows in (("train", 300), ("validation", 100), ("test", 80)):
        lines = ["text,label"]
        for row in range(n_rows):
            words = random.choice(WORDS, 3).tolist()
            lines.append(f"{' '.join(words)} number {row},{target(words)}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        settings.append(f"dataset.{name}={folder / name}.csv")
    return settings


def opinion(words):
    return "good" if "warm" in words else "bad"


TARGETS = {
    "classification": opinion,
    "multilabel": lambda words: "|".join(sorted({*words} & {"warm", "dull", "slow"})) or "none",
    "regression": lambda words: 3 + 2 * ("warm" in words) - ("dull" in words),
}


@pytest.fixture(scope="module", params=TARGETS)
def branch_run(request, tmp_path_factory, cache):
    """A run whose network has hardly begun to learn, and whose linear model has half of the weight."""
    folder = tmp_path_factory.mktemp("films")
    settings = (f"task={request.param}", "task.linear_weight=0.5", *films(folder, TARGETS[request.param]), *SHORT)
    return trained(folder / "run", cache, *settings)


@pytest.fixture(scope="module")
def classes_run(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("classes")
    settings = ("task=classification", "task.linear_weight=0.5", *films(folder, opinion), *SHORT)
    return trained(folder / "run", cache, *settings)


def report_of(run):
    return json.loads((run / "report.json").read_text())


def probabilities(model, texts):
    return np.array([list(one["probabilities"].values()) for one in model.predict(texts)])


def test_the_report_says_what_each_part_has_and_what_both_gain(branch_run):
    report = report_of(branch_run)
    facts = report["linear_branch"]
    assert facts["weight"] == 0.5 and facts["ngrams"] > 8
    for name, parts in facts["splits"].items():
        assert parts["both"] == report["splits"][name][facts["score"]]
        assert parts["gain"] == pytest.approx(parts["both"] - parts["network"])
        low, high = parts["gain_ci95"]
        assert low <= parts["gain"] <= high
    assert facts["splits"]["test"]["linear"] > 0.9


def test_eval_scores_what_the_run_has_scored(branch_run, command, tmp_path):
    command("eval", f"run={branch_run}", "split=test", f"run_dir={tmp_path / 'eval'}", "device=cpu")
    expected = report_of(branch_run)["splits"]["test"]
    scores = report_of(tmp_path / "eval")["splits"]["test"]
    assert {name: scores[name] for name in expected if name != "calibration"} == {
        name: value for name, value in expected.items() if name != "calibration"
    }


def test_probabilities_are_the_weighted_geometric_mean_of_both_models(classes_run):
    model = encoderlab.load(classes_run, device="cpu")
    texts = ["warm film", "a dull plot and a slow cast", "number 7"]
    network = probabilities(model.network_alone, texts)
    linear = model.branch.model.probabilities([(text,) for text in texts])
    mean = np.sqrt(network * linear) ** (1 / model.branch.temperature)
    assert probabilities(model, texts) == pytest.approx(mean / mean.sum(1, keepdims=True), abs=1e-5)


def test_a_pickled_model_predicts_the_same(classes_run):
    model = encoderlab.load(classes_run, device="cpu")
    again = pickle.loads(pickle.dumps(model))
    assert (probabilities(again, ["warm film"]) == probabilities(model, ["warm film"])).all()


def test_the_network_and_its_vectors_are_those_of_a_run_without_a_branch(classes_run, tmp_path, cache):
    settings = ("task=classification", "task.linear_weight=0", *films(tmp_path, opinion), *SHORT)
    without = trained(tmp_path / "run", cache, *settings)
    weights = "model/model.safetensors"
    assert (without / weights).read_bytes() == (classes_run / weights).read_bytes()
    assert "linear_branch" not in report_of(without)
    alone = encoderlab.load(without, device="cpu")
    both = encoderlab.load(classes_run, device="cpu")
    texts = ["warm film", "dull plot"]
    assert (alone.embed(texts) == both.embed(texts)).all()
    assert (probabilities(alone, texts) == probabilities(both.network_alone, texts)).all()


def test_explain_shows_what_a_word_adds_in_both(classes_run, command, tmp_path, capsys):
    command("explain", f"run={classes_run}", "text=warm plot", "label=good", "run_dir=why", "device=cpu")
    (explanation,) = json.loads((tmp_path / "why" / "explain.json").read_text())
    warm, plot = explanation["words"]
    assert warm["linear"] > 0.5 > plot["linear"]
    for word in (warm, plot):  # of two classes, log-odds add up
        assert word["score"] == pytest.approx(word["network"] + word["linear"], abs=1e-4)
    shown = capsys.readouterr().out
    assert all(f"{warm[part]:+.3f}" in shown for part in ("score", "network", "linear"))


def test_explain_scores_the_network_as_without_a_branch(classes_run, command, tmp_path):
    network = shutil.copytree(classes_run / "model", tmp_path / "network")
    (network / "linear.json").unlink()
    (network / "manifest.json").unlink()
    words = []
    for run in (classes_run, network):
        folder = f"why-{run.name}"
        command("explain", f"run={run}", "text=warm plot", "label=good", f"run_dir={folder}", "device=cpu")
        (explanation,) = json.loads((tmp_path / folder / "explain.json").read_text())
        words.append(explanation["words"])
    both, alone = words
    assert [word["linear"] for word in alone] == [None, None]
    share = 0.5 / encoderlab.load(classes_run, device="cpu").branch.temperature
    assert [word["network"] / share for word in both] == pytest.approx([word["score"] for word in alone], abs=1e-4)


def test_a_branch_that_adds_nothing_is_not_kept(tmp_path, cache):
    random = np.random.default_rng(1)
    settings = (
        "task=classification",
        "task.linear_weight=null",
        *films(tmp_path, lambda _: random.choice(["good", "bad"])),
        *SHORT,
    )
    run = trained(tmp_path / "run", cache, *settings, "training.steps=100")
    assert report_of(run)["linear_branch"]["weight"] == 0
    assert not (run / "model" / "linear.json").exists()


def test_a_branch_that_predicts_better_is_kept(tmp_path, cache):
    settings = ("task=classification", "task.linear_weight=null", *films(tmp_path, opinion), *SHORT)
    run = trained(tmp_path / "run", cache, *settings, "training.steps=100", "training.learning_rate=1e-9")
    facts = report_of(run)["linear_branch"]
    parts = facts["splits"]["test"]
    assert facts["weight"] > 0.4 and parts["gain"] > 0.1 and parts["both"] >= parts["linear"]


def answers(model, texts):
    """Return the number that is predicted for each text, or the probabilities."""
    predictions = model.predict(texts)
    return np.array([list(one.get("probabilities", {0: one["predicted"]}).values()) for one in predictions])


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")
def test_an_exported_graph_and_its_program_predict_what_the_run_predicts(branch_run, command, tmp_path):
    texts = ["warm film", "a DULL plot, a slow cast!", "x", "warm " * 400]
    folder = tmp_path / "exported"
    command("export", f"run={branch_run}", "format=onnx", f"path={folder}")
    expected = answers(encoderlab.load(branch_run, device="cpu"), texts)
    assert answers(encoderlab.load(folder, device="cpu"), texts) == pytest.approx(expected, abs=2e-4)
    printed = subprocess.run(
        [sys.executable, folder / "predict.py", *texts], capture_output=True, text=True, check=True
    )
    program = [json.loads(line) for line in printed.stdout.splitlines()]
    numbers = [list(one.get("probabilities", {0: one["predicted"]}).values()) for one in program]
    assert np.array(numbers) == pytest.approx(expected, abs=2e-4)


@pytest.mark.slow
def test_format_huggingface_says_that_it_leaves_the_branch_out(classes_run, command, tmp_path, capsys):
    command("export", f"run={classes_run}", "format=huggingface", f"path={tmp_path / 'exported'}")
    parts = report_of(classes_run)["linear_branch"]["splits"]["validation"]
    said = capsys.readouterr().err
    assert f"{parts['network']:.3f}" in said and f"{parts['both']:.3f}" in said
    network = encoderlab.load(classes_run, device="cpu").network_alone
    exported = encoderlab.load(tmp_path / "exported", device="cpu")
    assert probabilities(exported, ["warm film"]) == pytest.approx(probabilities(network, ["warm film"]), abs=1e-4)


def ngrams_of(about, **change):
    """Return the setting of a description with other n-grams."""
    setting = about["setting"]
    return {"setting": setting | {"ngrams": setting["ngrams"] | change}}


DAMAGE = {
    "a weight above 1": {"weight": 2},
    "no temperature": {"temperature": 0},
    "another kind": {"kind": "number"},
    "n-grams of a billion words": {"setting": {"ngrams": {"analyzer": "word", "shortest": 1, "longest": 10**9}}},
    "an unknown analyzer": {"setting": {"ngrams": {"analyzer": "shell", "shortest": 1, "longest": 2}}},
    "a vocabulary of one": {"vocabulary": ["warm"]},
    "n-grams that are none": {"vocabulary": [[]]},
    "a vocabulary cut by one": lambda about: {"vocabulary": about["vocabulary"][1:]},
    "an n-gram twice": lambda about: {"vocabulary": [*about["vocabulary"][1:], about["vocabulary"][-1]]},
    "an n-gram that is a number": lambda about: {"vocabulary": [*about["vocabulary"][1:], 3]},
    "n-grams of half a word": lambda about: ngrams_of(about, shortest=1.5),
    "a third kind of n-grams": lambda about: ngrams_of(about, beside=ngrams_of(about, beside={"analyzer": "word"})),
    "a weight without end": {"weight": 10**400},
    "a temperature that leaves no logits": {"temperature": 1e-300},
    "facts that are none": {"facts": 3},
    "facts without scores": {"facts": {"score": "accuracy", "splits": {"validation": {"network": "x"}}}},
    "a threshold that is none": {"facts": {"network_thresholds": {"threshold": "high"}}},
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_description_is_refused(change, classes_run, command, tmp_path):
    model = shutil.copytree(classes_run / "model", tmp_path / "model")
    content = json.loads((model / "linear.json").read_text())
    content |= change(content) if callable(change) else change
    (model / "linear.json").write_text(json.dumps(content))
    (model / "manifest.json").unlink()
    with pytest.raises(UserError) as refused:
        command("predict", f"run={model}", "text=warm")
    assert str(refused.value).isprintable()


ARRAYS = {
    "weights that are no numbers": lambda arrays: {"weights": arrays["weights"] * np.float16(np.nan)},
    "endless weights": lambda arrays: {"weights": np.full(arrays["weights"].shape, 3e38, np.float32)},
    "weights of too few n-grams": lambda arrays: {"weights": arrays["weights"][1:].copy()},
    "weights turned on their side": lambda arrays: {"weights": arrays["weights"].T.copy()},
    "one class of two": lambda arrays: {
        "weights": arrays["weights"][:, :1].copy(),
        "intercept": arrays["intercept"][:1],
    },
    "an intercept of another shape": lambda arrays: {"intercept": arrays["intercept"][:, None].copy()},
    "whole numbers": lambda arrays: {"weights": arrays["weights"].astype(np.int64)},
    "n-grams without weight": lambda arrays: {"idf": arrays["idf"] * 0},
}


@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_cannot_be_those_of_a_branch_are_refused(change, classes_run, command, tmp_path):
    model = shutil.copytree(classes_run / "model", tmp_path / "model")
    arrays = load_file(model / "linear.safetensors")
    save_file(arrays | change(arrays), model / "linear.safetensors")
    (model / "manifest.json").unlink()
    with pytest.raises(DataError):
        command("predict", f"run={model}", "text=warm")


@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95pickle"])
def test_a_file_that_holds_no_arrays_is_refused(content, classes_run, command, tmp_path):
    model = shutil.copytree(classes_run / "model", tmp_path / "model")
    (model / "linear.safetensors").write_bytes(content)
    (model / "manifest.json").unlink()
    with pytest.raises(DataError):
        command("predict", f"run={model}", "text=warm")


def test_a_flipped_bit_is_noticed(classes_run, command, tmp_path):
    model = shutil.copytree(classes_run / "model", tmp_path / "model")
    (model / "linear.json").write_text((model / "linear.json").read_text().replace("warm", "worm"))
    with pytest.raises(DataError, match="manifest"):
        command("predict", f"run={model}", "text=warm")


def test_a_weight_for_a_linear_model_that_cannot_be_fitted_is_refused(command, tmp_path, monkeypatch):
    monkeypatch.setattr("encoderlab.baselines.supervised.MOST_ROWS", 299)
    settings = (*films(tmp_path, opinion), *SHORT, f"run_dir={tmp_path / 'run'}")
    with pytest.raises(SettingError, match=r"task\.linear_weight=0\.5 .* 300"):
        command("train", "task=classification", "task.linear_weight=0.5", *settings)
    assert not (tmp_path / "run").exists()


def test_branch_and_baseline_are_one_fit(tmp_path, cache, monkeypatch):
    fits = []
    own = fit_branch.fit_on_ngrams
    monkeypatch.setattr(fit_branch, "fit_on_ngrams", lambda *given: fits.append(own(*given)) or fits[-1])
    monkeypatch.setattr("encoderlab.baselines.supervised.fit_on_ngrams", None)
    settings = ("task=classification", "task.linear_weight=0.5", *films(tmp_path, opinion), *SHORT, "baselines=true")
    report = report_of(trained(tmp_path / "run", cache, *settings))
    baseline = report["baselines"]["tfidf_logreg"]
    assert len(fits) == 1 and baseline["setting"] == report["linear_branch"]["setting"]
    assert baseline["accuracy"] == report["linear_branch"]["splits"]["test"]["linear"]


def test_without_validation_the_weight_is_chosen_out_of_fold(shipped, command, tmp_path):
    random = np.random.default_rng(0)
    for name, n_rows in (("train", 60), ("test", 80)):
        lines = ["text,label"]
        for row in range(n_rows):
            # a word of no meaning tells the label, which vectors of an encoder do not
            words = [*random.choice(WORDS, 3), ("qzx", "xqz")[row % 2]]
            lines.append(f"{' '.join(words)},{'good' if row % 2 else 'bad'}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = ("dataset=files", "dataset.train=train.csv", "dataset.test=test.csv", f"init_from={shipped}")
    short = ("training.learning_rate=1e-9", "training.epochs=2", "task.linear_weight=null", "baselines=false")
    command("finetune", "task=classification", *files, *short, "run_dir=run")
    facts = report_of(tmp_path / "run")["linear_branch"]
    assert facts["chosen_on"] == "cross-validation" and facts["weight"] > 0.1
    assert facts["splits"]["test"]["gain"] > 0

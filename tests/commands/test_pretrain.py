"""encoderlab pretrain: from documents to a report and a model, and on to a task that only pretraining can solve."""

import numpy as np
import pytest
import yaml

from encoderlab.errors import DataError
from encoderlab.system.files import differing_files
from encoderlab.training.checkpoint import checkpoints, step_of
from tests.run_files import report_of

SMALL = (
    "model.n_layers=1",
    "model.d_model=32",
    "model.n_heads=2",
    "model.max_length=24",
    "training.threads=1",
    "training.batch_size=32",
)


def words_of(topic, draw):
    """Return fifty words of four letters, none of which reveals the topic."""
    return ["".join(draw.choice(list("bdfgklmnprstaeiou"), 4)) for _ in range(50)]


@pytest.fixture(scope="session")
def topics():
    draw = np.random.default_rng(7)
    return [words_of(topic, draw) for topic in range(2)]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, topics):
    """Write documents on one topic each: sentences of its words, three per paragraph."""
    draw, path = np.random.default_rng(0), tmp_path_factory.mktemp("corpus") / "articles.txt"

    def sentence(words):
        return " ".join(draw.choice(words, 6)).capitalize() + "."

    documents = ["\n".join(" ".join(sentence(topics[n % 2]) for _ in range(3)) for _ in range(4)) for n in range(300)]
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pretrained_for(tmp_path_factory, corpus, cache, run_in):
    """Pretrain for a number of steps, with a learning rate that suits it."""

    def pretrain(steps, learning_rate):
        folder = tmp_path_factory.mktemp("runs") / "pretrained"
        data = ("dataset=files", f"dataset.path={corpus}", "tokenizer.vocabulary_size=500", *SMALL, "model.dropout=0")
        length = (f"training.steps={steps}", f"training.learning_rate={learning_rate}")
        run_in(cache, "pretrain", *data, "model.pooling=mean", *length, f"run_dir={folder}")
        return folder

    return pretrain


@pytest.fixture(scope="module")
def briefly_pretrained(pretrained_for):
    """A run that has learned which words occur together, but not yet which sentences."""
    return pretrained_for(400, 0.01)


@pytest.fixture(scope="module")
def pretrained(pretrained_for):
    return pretrained_for(1200, 0.003)


def test_a_pretraining_run_leaves_the_promised_files(briefly_pretrained):
    files = {str(path.relative_to(briefly_pretrained)) for path in briefly_pretrained.rglob("*") if path.is_file()}
    assert files >= {"config.yaml", "environment.json", "metrics.jsonl", "report.json", "report.html", "plots/curves.png", "model/model.safetensors",
                     "model/config.json", "model/tokenizer.json", "model/README.md"}  # fmt: skip
    assert not any(
        differing_files(path, step=step_of(path)) for path in checkpoints(briefly_pretrained / "checkpoints")
    )
    report = report_of(briefly_pretrained)
    assert (report["command"], report["task"], report["seed"]) == ("pretrain", "pretraining", 0)
    scores = report["splits"]["validation"]
    assert {"n", "loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity", "nsp_accuracy", "nsp_loss"} <= scores.keys()
    assert scores["mlm_perplexity"] == pytest.approx(np.exp(scores["mlm_loss"]))
    assert {"most_frequent_token", "unigram", "majority"} <= report["baselines"].keys()
    assert {"tokens_per_second", "padding_fraction", "train_seconds"} <= report["throughput"].keys()
    assert report["pairs"]["documents"] == 270  # a tenth is held out
    assert abs(report["pairs"]["labels"]["follows"] - report["pairs"]["labels"]["random"]) <= 1


def check_that_words_are_learned(run):
    report = report_of(run)
    scores = report["splits"]["validation"]
    assert scores["mlm_loss"] < report["baselines"]["unigram"]["mlm_loss"] - 0.3  # one of a topic's words, not of all
    return scores


def test_it_learns_more_than_token_counts(briefly_pretrained):
    check_that_words_are_learned(briefly_pretrained)


@pytest.mark.slow
def test_in_more_steps_it_also_learns_which_sentences_follow_each_other(pretrained):
    assert check_that_words_are_learned(pretrained)["nsp_accuracy"] > 0.6


def labelled_rows(words, n, seed):
    draw = np.random.default_rng(seed)
    return [f"{' '.join(draw.choice(words[row % 2], 5))},{('up', 'down')[row % 2]}" for row in range(n)]


@pytest.fixture(scope="session")
def new_words(tmp_path_factory, topics):
    """Texts labelled by topic. Training has one half of the words, the other splits have the other half."""
    folder = tmp_path_factory.mktemp("task")
    halves = [[words[:25] for words in topics], [words[25:] for words in topics]]
    for name, half, n in (("train", 0, 120), ("validation", 1, 80), ("test", 1, 200)):
        rows = labelled_rows(halves[half], n, seed=n)
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return [f"dataset.{name}={folder / f'{name}.csv'}" for name in ("train", "validation", "test")]


@pytest.mark.slow
def test_pretraining_solves_a_task_that_training_from_scratch_cannot(pretrained, new_words, command, tmp_path):
    task = (
        "task=classification",
        "dataset=files",
        *new_words,
        "training.threads=1",
        "training.epochs=20",
        "training.keep=last",
    )
    command(
        "finetune",
        *task,
        f"init_from={pretrained}",
        "training.learning_rate=0.002",
        "model.pooling=mean",
        "run_dir=tuned",
    )
    command(
        "train",
        *task,
        *SMALL,
        "tokenizer.vocabulary_size=500",
        "training.learning_rate=0.002",
        "model.pooling=mean",
        "run_dir=scratch",
    )
    tuned, scratch = (report_of(tmp_path / name)["splits"]["test"]["accuracy"] for name in ("tuned", "scratch"))
    assert tuned > 0.9
    assert scratch < 0.75  # it has never seen the words


@pytest.mark.slow
def test_pretraining_continues_from_an_earlier_run(pretrained, corpus, command, tmp_path):
    data = (
        "dataset=files",
        f"dataset.path={corpus}",
        "tokenizer=as_pretrained",
        "model=as_pretrained",
        "training.threads=1",
    )
    command(
        "pretrain", *data, f"init_from={pretrained}", "training.steps=1", "training.learning_rate=1e-9", "run_dir=on"
    )
    before, after = (report_of(folder)["splits"]["validation"] for folder in (pretrained, tmp_path / "on"))
    assert after["mlm_loss"] == pytest.approx(before["mlm_loss"], abs=1e-3)
    assert report_of(tmp_path / "on")["init_from"] == pretrained.name
    assert yaml.safe_load((tmp_path / "on" / "config.yaml").read_text())["model"]["d_model"] == 32


@pytest.mark.parametrize(
    "settings", [("task.second_sentence=none",), ("dataset.pack=segments", "model.tie_decoder=false")], ids=" ".join
)
def test_every_kind_of_pretraining_runs(settings, corpus, command, tmp_path):
    data = ("dataset=files", f"dataset.path={corpus}", "dataset.limit=40", "tokenizer.vocabulary_size=200")
    command("pretrain", *data, *SMALL, *settings, "training.steps=2", "run_dir=run")
    report = report_of(tmp_path / "run")
    assert ("nsp_accuracy" in report["splits"]["validation"]) == ("task.second_sentence=none" not in settings)
    assert report["second_sentence"] == next((s.partition("=")[2] for s in settings if "second" in s), "next")


def test_a_pretraining_run_works_with_eval_predict_and_attention(briefly_pretrained, command, tmp_path):
    command("eval", f"run={briefly_pretrained}", "split=validation", "threads=1", "run_dir=again")
    before, again = (report_of(folder)["splits"]["validation"] for folder in (briefly_pretrained, tmp_path / "again"))
    assert again["mlm_loss"] == pytest.approx(before["mlm_loss"], abs=1e-4)
    assert again["nsp_accuracy"] == pytest.approx(before["nsp_accuracy"], abs=0.01)
    assert report_of(tmp_path / "again")["command"] == "eval"
    command("attention", f"run={briefly_pretrained}", "text=a few words", "threads=1", "run_dir=maps")
    assert (tmp_path / "maps" / "attention" / "text" / "layer-1.png").is_file()
    command("attention", f"run={briefly_pretrained}", "rows=[2]", "threads=1", "run_dir=more")
    assert (tmp_path / "more" / "attention" / "validation-2").is_dir()


@pytest.mark.parametrize(
    ("setting", "named"), [("tokenizer=symbols", "knows no word"), ("task.min_sentences=500", "task.min_sentences=500")]
)
def test_documents_without_known_words_or_long_enough_texts_are_refused(setting, named, corpus, command, tmp_path):
    with pytest.raises(DataError, match=named):
        command("pretrain", "dataset=files", f"dataset.path={corpus}", "dataset.limit=40", setting, "run_dir=run")
    assert not (tmp_path / "run").exists()

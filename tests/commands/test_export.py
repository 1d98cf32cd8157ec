"""encoderlab export: transformers opens the folder without our code, we open it again, and Hugging Face folders work as
run=.
"""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from torch.testing import assert_close

from encoderlab.config.commands import OpenRunConfig, RunConfig
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.examples import TextExample
from encoderlab.data.tokenizer_config import WordPieceConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.models.folder import open_model, save_model
from encoderlab.models.model import Model, Provenance
from encoderlab.network.config import ModelConfig, Pooling, Positions
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.training.config import Precision, TrainingConfig

TEXTS = [
    "The quick brown fox",
    "jumps over",
    "the lazy dog, and the dog sleeps on; the fox does not.",
    "fox",
    "Übung macht den Fox",
]
PAIRS = [(first, second) for first in TEXTS for second in TEXTS]
LABELS = ["sad", "nützlich", "glad"]
# leaves an even room for pairs: of an odd one BERT's own code, and ours, give the last place to the first text where
# both are cut and the second is no shorter, and the tokenizers of transformers to the second
LENGTH = 13
WORDPIECE = WordPieceConfig(vocabulary_size=120)
POSITIONS = "encoder.embeddings.position.embedding.weight"
CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")


@pytest.fixture(autouse=True, scope="module")
def one_thread_and_no_bars():
    transformers.utils.logging.disable_progress_bar()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def finished(tmp_path):
    """Writes a finished run's model/ folder, every weight drawn, and returns the folder."""

    def write(task, labels=LABELS, *, tokenizer=WORDPIECE, paired=False, **settings):
        shape = {
            "n_layers": 2,
            "d_model": 16,
            "n_heads": 2,
            "max_length": LENGTH,
            "pooling": Pooling.pooler,
            **settings,
        }
        model, training = ModelConfig(**shape), TrainingConfig()
        config = RunConfig(str(tmp_path), task, BracketsDataset(limit=9), tokenizer, model, training, run_dir=None)
        built = tokenizer.build(lambda: TEXTS * 3, tmp_path / "cache")
        its_task = task.build(built, labels, model.max_length)
        torch.manual_seed(0)
        weights = EncoderWithHeads(model, built.vocabulary_size, built.pad_id, its_task.heads).eval()
        with torch.no_grad():
            for parameter in weights.parameters():
                parameter.normal_(std=0.3)
        provenance = Provenance({"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"}, paired, {})
        save_model(Model(config, its_task, weights, CPU, provenance), tmp_path / "run" / "model", "# a cärd\n")
        return tmp_path / "run"

    return write


def opened(folder):
    return open_model(
        OpenRunConfig(cache_dir="cache", run=str(folder), device="cpu", precision=Precision.fp32, threads=1)
    )


def our_logits(folder, examples):
    """Return the run's logits for each example: for a text [classes], for words [words, classes]."""
    model = opened(folder)
    rows = model.rows(examples)
    logits = {}
    with torch.inference_mode():
        for batch in model.scoring_batches(rows):
            prediction = model.network(batch)
            places = batch.target_positions // batch.input_ids.shape[1]
            for place, row in enumerate(batch.rows.tolist()):
                words = prediction.token_logits[places == place] if prediction.token_logits is not None else None
                logits[row] = words if prediction.sequence_logits is None else prediction.sequence_logits[place]
    return [logits[row] for row in range(len(examples))]


def their_logits(folder, opened_by, *texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, opened_by).from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**tokenizer(*texts, padding=True, truncation=True, return_tensors="pt"))


@pytest.mark.parametrize(
    "shape", [{}, {"pooling": Pooling.cls}, {"pooling": Pooling.relu_pooler, "segments": 0, "norm_epsilon": 1e-12}]
)
def test_transformers_predicts_single_texts_as_the_run_does(command, finished, shape, capsys):
    run = finished(ClassificationConfig(name="moods"), **shape, positions=Positions.sinusoidal, bias=False)
    command("export", f"run={run}", "format=huggingface", "path=out/there")
    modes = {file.stat().st_mode for file in Path("out/there").iterdir()}
    assert len(modes) == 1, "every file, the weights too, follows the umask"
    theirs = their_logits("out/there", "AutoModelForSequenceClassification", TEXTS).logits
    examples = [TextExample(text) for text in TEXTS]
    assert_close(theirs, torch.stack(our_logits(run, examples)), rtol=1e-5, atol=5e-5)
    assert_close(
        torch.stack(our_logits("out/there", examples)), torch.stack(our_logits(run, examples)), rtol=1e-5, atol=1e-5
    )
    assert capsys.readouterr().out.splitlines()[0] == "out/there"


def test_transformers_predicts_pairs_as_the_run_does_with_its_labels(command, finished):
    run = finished(ClassificationConfig(name="moods"), paired=True)
    command("export", f"run={run / 'model'}", "path=there")
    theirs = their_logits("there", "AutoModelForSequenceClassification", *map(list, zip(*PAIRS, strict=True))).logits
    assert_close(theirs, torch.stack(our_logits(run, [TextExample(*pair) for pair in PAIRS])), rtol=1e-5, atol=1e-5)
    model = transformers.AutoModelForSequenceClassification.from_pretrained("there")
    assert model.config.id2label == dict(enumerate(LABELS))
    answers = transformers.pipeline("text-classification", model=model, tokenizer="there")(TEXTS, truncation=True)
    assert {answer["label"] for answer in answers} <= set(LABELS)


@pytest.mark.parametrize("shape", [{}, {"pooling": Pooling.relu_pooler, "segments": 0, "norm_epsilon": 1e-12}])
def test_the_exported_tokenizer_truncates_and_joins_as_ours_does(command, finished, shape):
    run = finished(ClassificationConfig(name="moods"), **shape)
    command("export", f"run={run}", "path=there")
    model = opened(run)
    tokenizer = transformers.AutoTokenizer.from_pretrained("there")
    assert tokenizer.model_max_length == LENGTH
    examples = [*((TextExample(text), (text,)) for text in TEXTS), *((TextExample(*pair), pair) for pair in PAIRS)]
    for example, texts in examples:
        ours = model.rows([example]).gather(np.array([0]), model.tokenizer.pad_id)
        theirs = tokenizer(*texts, truncation=True)
        assert theirs["input_ids"] == ours.input_ids[0].tolist()
        if not shape:
            assert theirs["token_type_ids"] == ours.token_type_ids[0].tolist()
        else:
            assert "token_type_ids" not in theirs


@pytest.mark.parametrize("positions", [Positions.learned, Positions.sinusoidal])
def test_a_pipeline_reads_texts_longer_than_the_run_does_with_its_defaults(command, finished, positions):
    run = finished(ClassificationConfig(name="moods"), positions=positions)
    command("export", f"run={run}", "path=there")
    long = " ".join(TEXTS * 4)
    pipeline = transformers.pipeline("text-classification", "there", top_k=None)
    assert {answer["label"] for answer in pipeline([long])[0]} == set(LABELS)
    (ours,) = opened(run).predict([long])
    (again,) = opened("there").predict([long])
    truncated = {answer["label"]: answer["score"] for answer in pipeline([long], truncation=True)[0]}
    assert truncated == pytest.approx(ours["probabilities"], abs=1e-4)
    assert again["probabilities"] == pytest.approx(ours["probabilities"], abs=1e-4)


@pytest.mark.slow
def test_positions_that_a_run_did_not_read_are_those_of_its_encoder(command):
    task = ("task=brackets", "dataset.limit=300", "training=smoke", "training.threads=1")
    shape = ("model=tiny", "model.n_layers=1", "model.max_length=40")
    command("train", *task, *shape, "run_dir=start")
    command("finetune", *task, "init_from=start", "model.max_length=8", "run_dir=short")
    command("export", "run=short", "path=there", "heads=false")
    table = transformers.AutoModel.from_pretrained("there").embeddings.position_embeddings.weight
    assert len(table) == 512
    assert_close(table[8:40], opened("start").network.state_dict()[POSITIONS][8:])


@pytest.mark.parametrize("tied", [True, False])
def test_a_pretrained_encoder_is_exported_with_both_heads(command, finished, tied):
    run = finished(PretrainingConfig(name="articles"), [], paired=True, tie_decoder=tied)
    command("export", f"run={run}", "path=there")
    theirs = their_logits("there", "BertForPreTraining", *map(list, zip(*PAIRS, strict=True)))
    model = opened(run)
    again = opened("there")
    assert again.labels == ["follows", "random"] == model.labels
    rows = model.rows([TextExample(*PAIRS[0])])
    for one in (model, again):
        batch = next(one.scoring_batches(rows))
        with torch.inference_mode():
            ours = one.network(batch).sequence_logits
        assert_close(ours, theirs.seq_relationship_logits[:1], rtol=1e-5, atol=1e-5)


def test_the_folder_is_complete_and_its_card_shows_how_to_use_it(command, finished, tmp_path, capsys):
    run = finished(ClassificationConfig(name="moods"))
    command("export", f"run={run}", "path=a folder")
    names = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"}
    assert {path.name for path in (tmp_path / "a folder").iterdir()} == names
    card = (tmp_path / "a folder" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: transformers\n---\n# a cärd\n") and "## With transformers" in card
    code = card.partition("```python\n")[2].partition("```")[0].replace("path/to/this/folder", "a folder")
    exec(code, {})
    assert "README.md" in capsys.readouterr().out


@pytest.mark.slow
def test_the_card_of_a_model_of_pairs_shows_a_pair_with_each_library(command, finished, tmp_path, capsys):
    pytest.importorskip("sentence_transformers")
    run = finished(ClassificationConfig(name="moods"), paired=True)
    command("export", f"run={run}", "path=there")
    card = (tmp_path / "there" / "README.md").read_text(encoding="utf-8").replace("path/to/this/folder", "there")
    programs = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(programs) == 2 and all("And another." in program for program in programs)
    exec(programs[0], by_transformers := {})
    exec(programs[1], by_sentences := {})
    chances = by_sentences["model"].predict([("A text.", "And another.")], apply_softmax=True)[0]
    assert chances.tolist() == pytest.approx(by_transformers["output"].logits[0].softmax(-1).tolist(), abs=1e-5)


def test_the_card_shows_how_pytorch_quantizes_all_but_the_layer_with_large_inputs(command, finished, tmp_path):
    command("export", f"run={finished(ClassificationConfig(name='moods'), pooling=Pooling.cls)}", "path=there")
    card = (tmp_path / "there" / "README.md").read_text(encoding="utf-8").replace("path/to/this/folder", "there")
    programs = [part.partition("```")[0] for part in card.split("```python\n")[1:]]
    names = {}
    exec("\n".join(programs), names)
    kept = [name for name, module in names["model"].named_modules() if type(module) is torch.nn.Linear]
    assert kept == ["electra.encoder.layer.0.output.dense"]


def test_a_mean_of_the_tokens_which_no_bert_computes_is_refused(command, finished):
    run = finished(ClassificationConfig(name="moods"), pooling=Pooling.mean)
    with pytest.raises(
        SettingError, match=r"model\.pooling=mean.*Use format=onnx, or train with model\.pooling=pooler"
    ):
        command("export", f"run={run}", "path=there")


def test_words_without_special_tokens_are_refused(command, finished):
    run = finished(TaggingConfig(name="digits", special_tokens=False))
    with pytest.raises(SettingError, match=r"task\.special_tokens=false.*Train with task\.special_tokens=true"):
        command("export", f"run={run}", "path=there")


def test_an_existing_path_is_refused(command, finished, tmp_path):
    run = finished(ClassificationConfig(name="moods"))
    (tmp_path / "taken").mkdir()
    for path in ("taken", "."):
        with pytest.raises(SettingError, match=rf"path={path} already exists\. Allowed: a new folder"):
            command("export", f"run={run}", f"path={path}")
    with pytest.raises(SettingError, match="path is empty"):
        command("export", f"run={run}", "path=")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"path=file/there cannot be written: Not a directory"):
        command("export", f"run={run}", "path=file/there")


@pytest.mark.parametrize("pooling", [Pooling.cls, Pooling.mean, Pooling.max])
def test_sentence_transformers_opens_the_encoder_and_gives_the_same_vectors(command, finished, pooling):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    run = finished(ClassificationConfig(name="moods"), pooling=pooling)
    command("export", f"run={run}", "heads=false", "path=there")
    Path("texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    command("embed", f"run={run}", "input=texts.txt", "output=ours.npy", "precision=fp32")
    theirs = sentence_transformers.SentenceTransformer("there", device="cpu").encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(theirs, np.load("ours.npy"), atol=1e-5)
    command("embed", "run=there", "input=texts.txt", "output=again.npy", "precision=fp32")
    np.testing.assert_allclose(np.load("again.npy"), theirs, atol=1e-5)


# run= may be a folder of transformers


@pytest.fixture
def exported(command, finished):
    """A classifier of transformers, and the run it comes from."""
    run = finished(ClassificationConfig(name="moods"))
    command("export", f"run={run}", "path=there")
    return run


def predicted(command, capsys, *arguments):
    capsys.readouterr()
    command("predict", *arguments, "threads=1", "precision=fp32")
    return list(csv.reader(io.StringIO(capsys.readouterr().out)))


def test_predict_from_a_hugging_face_folder_equals_predict_from_the_run(command, exported, capsys):
    ours = predicted(command, capsys, f"run={exported}", "text=The quick fox")
    theirs = predicted(command, capsys, "run=there", "text=The quick fox")
    assert theirs[0] == ours[0] and theirs[1][:2] == ours[1][:2]
    assert [float(p) for p in theirs[1][2:]] == pytest.approx([float(p) for p in ours[1][2:]], abs=1e-5)


def test_a_hugging_face_folder_has_no_splits_of_its_own(command, exported):
    for line in (["predict", "split=test"], ["attention"], ["eval"], ["eval", "split=test"]):
        with pytest.raises(DataError, match=r"there is a model without a run.*dataset=\.\.\."):
            command(line[0], "run=there", *line[1:])


def test_eval_scores_a_hugging_face_folder_on_a_dataset(command, exported, tmp_path):
    rows = [f"the fox {number},{LABELS[number % 3]}" for number in range(30)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    command("eval", "run=there", "dataset=files", "dataset.path=rows.csv", "run_dir=scored")
    report = json.loads((tmp_path / "scored" / "report.json").read_text(encoding="utf-8"))
    assert report["splits"]["all"]["n"] == 30
    assert report["checkpoint"]["step"] is None


@pytest.mark.parametrize("labels", [["LABEL_0", "LABEL_1"], ["Unbalanced", "BALANCED"]])
def test_labels_that_differ_in_case_or_are_bare_numbers_are_matched_in_order_and_reported(
    command, exported, tmp_path, labels
):
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained("there")
    config = theirs.config
    config.id2label, config.label2id = dict(enumerate(labels)), {label: number for number, label in enumerate(labels)}
    transformers.BertForSequenceClassification(config).save_pretrained("other")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "other" / name).write_bytes((tmp_path / "there" / name).read_bytes())
    command("eval", "run=other", "dataset=brackets", "dataset.limit=20", "run_dir=scored")
    report = json.loads((tmp_path / "scored" / "report.json").read_text(encoding="utf-8"))
    assert f"The model's labels {labels} are matched with" in " ".join(report["notes"])


def test_an_encoder_without_a_head_predicts_nothing_but_shows_its_attention(command, exported, tmp_path):
    transformers.AutoModel.from_pretrained("there").save_pretrained("bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bare" / name).write_bytes((tmp_path / "there" / name).read_bytes())
    line = (
        "bare is an encoder without a head and predicts nothing. Train it on a task with encoderlab finetune init_from="
    )
    for arguments in (["predict", "text=fox"], ["eval", "dataset=brackets"]):
        with pytest.raises(DataError, match=line):
            command(arguments[0], "run=bare", *arguments[1:])
    command("attention", "run=bare", "text=The fox", "text_pair=the dog", "run_dir=maps")
    assert (tmp_path / "maps" / "attention" / "text" / "layer-1.png").is_file()


def test_a_vocabulary_suffices_as_a_tokenizer_and_a_missing_one_is_refused(command, exported, tmp_path, capsys):
    before = predicted(command, capsys, "run=there", "text=The quick fox")
    pieces = json.loads((tmp_path / "there" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "there" / name).unlink()
    with pytest.raises(
        DataError, match=r"there has no tokenizer\. Allowed: a folder with tokenizer\.json or vocab\.txt"
    ):
        command("predict", "run=there", "text=fox")
    (tmp_path / "there" / "vocab.txt").write_text("\n".join(sorted(pieces, key=pieces.get)) + "\n", encoding="utf-8")
    assert predicted(command, capsys, "run=there", "text=The quick fox") == before

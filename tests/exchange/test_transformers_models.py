"""Encoders of transformers that ours cannot be: the same vectors as there, and the commands that work with them."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import encoderlab
from encoderlab.errors import DataError, SettingError
from encoderlab.models.folder import read_model
from encoderlab.models.pretrained import load_pretrained
from encoderlab.network.config import TransformersConfig
from encoderlab.network.packing import Selection
from encoderlab.network.transformers_encoder import TransformersEncoder, transformers_config
from encoderlab.system.processes import Interrupted
from tests.exchange.family_folders import TEXTS
from tests.exchange.test_families import TEXT, rows_of
from tests.exchange.transformers_folders import TYPES, folder_of_type

ROWS = ("task=classification", "dataset=files", "dataset.path=rows.csv")
SLOW_ALBERT, SLOW_NOMIC = (pytest.param(name, marks=pytest.mark.slow) for name in ("albert", "nomic_bert"))
LINE = ("training=smoke", "training.device=cpu", "baselines=false", "cache_dir=cache")


@pytest.fixture
def finetuned(tmp_path, command):
    """Return a function that finetunes an encoder of a type in the folder `run`."""

    def finetune(model_type, *more):
        folder_of_type(model_type, tmp_path / "start", scale=None, initializer_range=0.2)
        rows_of(tmp_path / "rows.csv")
        command("finetune", *ROWS, "init_from=start", *LINE, "run_dir=run", *more)

    return finetune


def given_to(tokenizer, texts, pairs=None, length=None):
    """Return what transformers' model and ours read of texts or pairs."""
    inputs = tokenizer(texts, pairs, padding=True, truncation=True, max_length=length, return_tensors="pt")
    types = inputs.get("token_type_ids", torch.zeros_like(inputs["input_ids"]))
    return inputs, (inputs["input_ids"], types, inputs["attention_mask"].bool())


@pytest.mark.parametrize("model_type", TYPES)
def test_vectors_of_tokens_equal_those_of_transformers(model_type, tmp_path):
    theirs, tokenizer = folder_of_type(model_type, tmp_path)
    encoder = read_model(tmp_path).network.encoder
    texts = ["A good film", TEXTS[3], TEXT * 4]
    limit = 148 if model_type == "longformer" else 150  # whose positions begin after the padding's id
    assert encoder.max_length == limit
    for some, pairs in ((texts[:2], [TEXTS[5], "A bad"]), (texts, None)):
        inputs, ours = given_to(tokenizer, some, pairs, encoder.max_length)
        if not encoder.n_segments:
            inputs.pop("token_type_ids", None)
        places = torch.tensor([0, 2, ours[0].shape[1] + 1])
        with torch.no_grad():
            expected = theirs(**inputs).last_hidden_state
            hidden = encoder(*ours)
            selected = encoder.encode(*ours, selection=Selection(places, 2))
        assert_close(hidden[ours[2]], expected[ours[2]], rtol=1e-5, atol=1e-5)
        assert_close(selected, hidden.flatten(0, 1)[places])
    assert inputs["input_ids"].shape[1] == limit


@pytest.mark.parametrize("model_type", TYPES)
@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForTokenClassification"])
def test_the_head_of_a_classifier_is_read_where_ours_is_the_same(model_type, head, tmp_path):
    theirs, tokenizer = folder_of_type(model_type, tmp_path, head)
    model = read_model(tmp_path)
    inputs, _ = given_to(tokenizer, ["A good film"])
    if not model.network.encoder.n_segments:
        inputs.pop("token_type_ids", None)
    with torch.no_grad():
        expected = theirs(**inputs).logits.softmax(-1)[0]
    predicted = model.predict("A good film")[0]
    assert model.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    if head == "ForSequenceClassification":
        assert list(predicted["probabilities"].values()) == pytest.approx(expected.tolist(), abs=1e-5)
    else:
        assert predicted["predicted"][0] == model.labels[int(expected[1].argmax())]


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["deberta-v2", "longformer", SLOW_ALBERT, SLOW_NOMIC])
def test_a_finetuned_encoder_predicts_explains_and_is_exported(model_type, tmp_path, finetuned, command):
    finetuned(model_type, "training.steps=60", "training.learning_rate=0.01")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    scores = report["splits"]["validation"]
    assert scores["accuracy"] > 0.8, "chance is a half"
    for folder in ("start", "rows.csv"):
        (tmp_path / folder).rename(tmp_path / f"gone {folder}")
    model = encoderlab.load("run")
    expected = model.predict(["A good film", TEXT])
    assert expected[0]["predicted"] == "yes"
    command("explain", "run=run", "text=A good film", "run_dir=why")
    assert (tmp_path / "why" / "explain.html").is_file()
    vectors = model.embed(["A good film", TEXT])
    assert vectors.shape == (2, 16) and np.isfinite(vectors).all()

    if model_type == "longformer":  # whose code depends on how long a text is
        with pytest.raises(DataError, match="encoder of another type"):
            command("export", "run=run", "format=onnx", "path=graph")
    else:
        command("export", "run=run", "format=onnx", "path=graph")
        of_graph = encoderlab.load("graph").predict(["A good film", TEXT])
        for one, other in zip(expected, of_graph, strict=True):
            assert other["probabilities"] == pytest.approx(one["probabilities"], abs=1e-4)

    command("export", "run=run", "format=huggingface", "path=back")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained("back").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("back")
    assert theirs.config.model_type == model_type
    with torch.no_grad():
        logits = theirs(**tokenizer("A good film", return_tensors="pt")).logits[0]
    assert logits.softmax(-1).tolist() == pytest.approx(list(expected[0]["probabilities"].values()), abs=1e-4)
    again = encoderlab.load("back").predict("A good film")[0]
    assert again["probabilities"] == pytest.approx(expected[0]["probabilities"], abs=1e-4)


class TransposedInputs(TorchDispatchMode):
    """Counts the linear layers whose input is transposed: without gradients, PyTorch copies their weights for each row
    of the input.
    """

    number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.linear.default:
            self.number += not args[0].is_contiguous()
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("model_type", TYPES)
def test_no_prediction_copies_weights_for_each_token(model_type, tmp_path):
    folder_of_type(model_type, tmp_path / "start")
    encoder = load_pretrained(str(tmp_path / "start")).network.encoder.eval()
    ids = torch.full((2, 16), 7)
    transposed = TransposedInputs()
    with transposed, torch.inference_mode():
        encoder(ids, torch.zeros_like(ids), None)
    assert transposed.number == 0, "in bf16, Longformer's predictions took many times as long"


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["deberta-v2", SLOW_ALBERT])
def test_a_stopped_run_resumes_bit_for_bit(model_type, tmp_path, finetuned, command, stop_after):
    quick = ("training.steps=8", "training.checkpoint_every=3", "training.keep=last")
    finetuned(model_type, *quick)
    stop_after(5)
    with pytest.raises(Interrupted):
        command("finetune", *ROWS, "init_from=start", *LINE, *quick, "run_dir=stopped")
    stop_after(-1)
    command("finetune", "resume=stopped")
    whole, resumed = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("run", "stopped"))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.slow
def test_a_head_that_its_own_class_lacks_is_refused(finetuned, command):
    finetuned("albert", "model.pooling=mean", "training.steps=2")
    with pytest.raises(SettingError, match="model.pooling=mean.*or train with model.pooling=pooler"):
        command("export", "run=run", "format=huggingface", "path=back")


@pytest.mark.slow
def test_lower_layers_stay_as_pretrained(tmp_path, finetuned):
    finetuned("deberta-v2", "training.freeze_layers=3", "training.steps=3")
    before = read_model(tmp_path / "start").network.state_dict()
    after = read_model(tmp_path / "run" / "model").network.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all("layer.3." in name for name in changed)


def test_attention_shows_maps_where_the_model_gives_them(tmp_path, command):
    folder_of_type("albert", tmp_path / "albert")
    folder_of_type("longformer", tmp_path / "longformer")
    command("attention", "run=albert", "text=A good film", "run_dir=maps")
    (file,) = (tmp_path / "maps").rglob("weights.npz")
    weights = np.load(file)["weights"]
    assert weights.shape[:2] == (4, 2)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    with pytest.raises(SettingError, match="longformer"):
        command("attention", "run=longformer", "text=A good film", "run_dir=none")


@pytest.mark.slow
def test_an_encoder_teaches_another(tmp_path, finetuned, command):
    finetuned("albert")
    taught = ("distill", "teacher=run", "model=tiny", *ROWS, *LINE, "run_dir=student")
    with pytest.raises(SettingError, match="the teacher's layers are those of a albert"):
        command(*taught, "start=layers")
    command(*taught, "start=fresh")
    assert (tmp_path / "student" / "report.json").is_file()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"model_type": "gpt2"}, "model_type=gpt2. Allowed: bert, "),
        ({"model_type": "t5"}, "model_type=t5. Allowed"),
        ({"model_type": "bart"}, "it has a decoder"),
        ({"model_type": "vit"}, "model_type=vit. Allowed"),
        ({"model_type": "new", "auto_map": {"AutoModel": "modeling.NewModel"}}, "auto_map. is never run"),
        ({"model_type": "deberta-v2", "is_decoder": True}, "is_decoder=True"),
        ({"model_type": "deberta-v2", "num_hidden_layers": "many"}, "cannot open"),
    ],
)
def test_what_is_no_encoder_of_texts_is_refused(tmp_path, command, fields, problem):
    folder_of_type("deberta-v2", tmp_path / "start")
    path = tmp_path / "start" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    rows_of(tmp_path / "rows.csv")
    with pytest.raises(DataError, match=problem):
        command("finetune", *ROWS, "init_from=start", *LINE)


def test_code_in_a_folder_is_not_run(tmp_path):
    folder_of_type("deberta-v2", tmp_path)
    path = tmp_path / "config.json"
    own_code = {"auto_map": {"AutoModel": "modeling.Model", "AutoConfig": "modeling.Config"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | own_code))
    (tmp_path / "modeling.py").write_text("raise RuntimeError('this was run')")
    assert read_model(tmp_path).shape.name == "deberta-v2"


@pytest.mark.slow
def test_a_run_of_a_type_that_transformers_no_longer_has_is_refused(tmp_path, finetuned):
    finetuned("deberta-v2", "training.steps=2")
    (tmp_path / "run" / "model" / "manifest.json").unlink()
    path = tmp_path / "run" / "model" / "config.json"
    path.write_text(path.read_text().replace('"model_type": "deberta-v2"', '"model_type": "deberta-v9"'))
    with pytest.raises(DataError, match="cannot build this deberta-v2.*deberta-v9"):
        encoderlab.load("run")


def test_an_encoder_whose_vectors_depend_on_padding_is_refused(tmp_path):
    _, tokenizer = folder_of_type("albert", tmp_path)
    config = transformers.FNetConfig(
        vocab_size=200, hidden_size=16, num_hidden_layers=2, intermediate_size=24, max_position_embeddings=64
    )
    transformers.FNetModel(config).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="fnet.*padding"):
        read_model(tmp_path)


def test_missing_weights_of_the_encoder_are_named(tmp_path):
    folder_of_type("deberta-v2", tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(DataError, match=r"its weights lack encoder\.layer\.1\.output\.dense\.weight"):
        read_model(tmp_path)


def test_a_tokenizer_that_transformers_must_convert_first_is_refused(tmp_path):
    folder_of_type("deberta-v2", tmp_path)
    (tmp_path / "tokenizer.json").rename(tmp_path / "spm.model")
    with pytest.raises(DataError, match="save_pretrained"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (("pretrain", "dataset=articles"), "of type deberta-v2 can be finetuned, but not pretrained"),
        (("finetune", *ROWS, "model=tiny"), "which is a deberta-v2"),
    ],
)
def test_what_such_an_encoder_cannot_do_is_refused(tmp_path, command, line, problem):
    folder_of_type("deberta-v2", tmp_path / "start")
    rows_of(tmp_path / "rows.csv")
    with pytest.raises(SettingError, match=problem):
        command(*line, "init_from=start", *LINE)


def test_fields_that_choose_code_are_left_out_of_every_config():
    fields = {"model_type": "albert", "auto_map": {"AutoModel": "own.Model"}, "_attn_implementation": "someone/kernel"}
    config = transformers_config(fields)
    assert not hasattr(config, "auto_map") and config._attn_implementation != "someone/kernel"


def test_a_long_text_is_read_alike_before_and_after_a_short_one():
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    blocks = {"max_position_embeddings": 256, "block_size": 4, "num_random_blocks": 1}
    fields = {"model_type": "big_bird", "intermediate_size": 16, "attention_type": "block_sparse", **sizes, **blocks}
    ours = TransformersConfig(name="big_bird", transformers=fields, max_length=256)
    torch.manual_seed(0)
    encoder = TransformersEncoder(ours, 30, 0).eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(std=0.3)
        long = torch.randint(1, 30, (1, 200))
        before = encoder(long, torch.zeros_like(long), None)
        encoder(long[:, :8], torch.zeros_like(long[:, :8]), None)
        assert torch.equal(encoder(long, torch.zeros_like(long), None), before)

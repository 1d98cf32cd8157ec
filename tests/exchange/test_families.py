"""Families of transformers besides BERT and DistilBERT: the same hidden states, logits and ids as there, finetuned and
exported back.
"""

import csv
import json

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from torch.testing import assert_close

import encoderlab
from encoderlab.data.examples import TextExample
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.models.folder import read_model
from encoderlab.models.pretrained import load_pretrained
from encoderlab.network.config import Pooling
from encoderlab.network.heads import separate_texts
from encoderlab.network.packing import Selection
from tests.exchange.family_folders import CONFIGS, TEXTS, folder_of, tokenizer_of

HEADS = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")
FAST, SLOW = ("roberta", "electra", "mpnet", "modernbert"), pytest.mark.slow
TEXT = "A good film, says Ünder: a bad one! " * 16


def opened(folder):
    """Return the model of a folder, as commands open it."""
    return read_model(folder).network


def assert_equal_to(theirs, model, tokenizer, texts, pairs=None, length=None):
    """Check hidden states and logits of a padded batch of texts or pairs, also without padding and selected."""
    inputs = tokenizer(texts, pairs, padding=True, truncation=True, max_length=length, return_tensors="pt")
    mask = inputs["attention_mask"].bool()
    types = inputs.get("token_type_ids", torch.zeros_like(inputs["input_ids"]))
    names = ("input_ids", "attention_mask", "token_type_ids")
    given = {name: inputs[name] for name in names if name in inputs}
    if model.encoder.embeddings.segment is None:
        given.pop("token_type_ids", None)
    with torch.no_grad():
        expected = theirs(**given, output_hidden_states=True)
        hidden = model.encoder(inputs["input_ids"], types, mask)
        packed = model.encoder.encode(inputs["input_ids"], types, mask, int(mask.sum()))
        last = mask.sum(1) - 1 + torch.arange(len(mask)) * mask.shape[1]
        places = torch.cat([torch.arange(len(mask)) * mask.shape[1], last])
        selected = model.encoder.encode(inputs["input_ids"], types, mask, int(mask.sum()), Selection(places, 2))
    last_hidden = expected.get("last_hidden_state", expected.get("hidden_states", [None])[-1])
    assert_close(hidden[mask], last_hidden[mask], rtol=1e-5, atol=1e-5)
    assert_close(packed[mask], hidden[mask], rtol=1e-5, atol=1e-5)
    assert_close(selected, hidden.flatten(0, 1)[places], rtol=1e-5, atol=1e-5)
    return inputs


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("head", ["Model", "ForMaskedLM"])
def test_hidden_states_equal_those_of_transformers(family, head, tmp_path):
    theirs, tokenizer = folder_of(family, tmp_path, head)
    model = opened(tmp_path)
    texts = ["A good film", TEXTS[3], TEXT]
    limit = model.encoder.max_length
    assert_equal_to(theirs, model, tokenizer, texts, length=limit)
    assert_equal_to(theirs, model, tokenizer, texts[:2], [TEXTS[5], "A bad"], length=limit)
    inputs = assert_equal_to(theirs, model, tokenizer, texts[2:], length=limit)
    assert inputs["input_ids"].shape[1] == limit


@pytest.mark.parametrize("family", CONFIGS)
def test_a_missing_head_is_refused_unless_the_encoder_was_written_without_one(family, tmp_path):
    def state_masked_lm(folder):
        fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        fields["architectures"] = [fields["architectures"][0].removesuffix("Model") + "ForMaskedLM"]
        (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")

    # As in all-mpnet-base-v2: AutoModel wrote the weights, and config.json names the class that training began with.
    theirs, tokenizer = folder_of(family, tmp_path / "alone")
    state_masked_lm(tmp_path / "alone")
    assert_equal_to(theirs, opened(tmp_path / "alone"), tokenizer, ["A good film"])

    # The encoder of a model that had a head: somebody has lost it.
    theirs, _ = folder_of(family, tmp_path / "lost")
    body = transformers.AutoModelForMaskedLM.from_config(theirs.config).base_model_prefix
    weights = {f"{body}.{name}": weight for name, weight in theirs.state_dict().items()}
    safetensors.torch.save_file(weights, tmp_path / "lost" / "model.safetensors")
    state_masked_lm(tmp_path / "lost")
    with pytest.raises(DataError, match="its weights lack"):
        opened(tmp_path / "lost")


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("head", HEADS[1:])
def test_logits_equal_those_of_transformers(family, head, tmp_path, make_batch):
    theirs, tokenizer = folder_of(family, tmp_path, head)
    model = opened(tmp_path)
    batch = make_batch([7, 3, 9], seed=1)
    batch.input_ids[:] = batch.input_ids.clamp(min=5)
    batch.token_type_ids[:] = 0
    with torch.no_grad():
        expected = theirs(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long()).logits
        ours = model(batch)
    if ours.sequence_logits is not None:
        assert_close(ours.sequence_logits, expected, rtol=1e-5, atol=1e-5)
    else:
        assert_close(ours.token_logits, expected[batch.attention_mask], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", CONFIGS)
def test_ids_of_texts_and_pairs_equal_those_of_transformers(family, tmp_path):
    theirs = tokenizer_of(family)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()  # as on the hub, where it seldom names the special tokens
    ours = Tokenizer.load(tmp_path / "tokenizer.json")
    texts = [*TEXTS, TEXT, "", "  two  blanks ", "unseen: 東京 \u00a0 naïve\n"]
    assert ours.encode(texts) == [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    ours.save(tmp_path / "ours" / "tokenizer.json")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    for pair in (("A good film",), ("A good film", "says who")):
        assert again(*pair)["input_ids"] == theirs(*pair)["input_ids"]


@pytest.mark.parametrize(
    ("stated", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, Pooling.cls),
        ({"pooling_mode": "cls"}, Pooling.cls),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, Pooling.mean),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}, Pooling.max),
    ],
)
def test_sentence_vectors_are_pooled_as_they_were_trained(tmp_path, command, stated, pooling):
    theirs, tokenizer = folder_of("roberta", tmp_path / "start")
    (tmp_path / "start" / "1_Pooling").mkdir()
    (tmp_path / "start" / "1_Pooling" / "config.json").write_text(json.dumps(stated))
    (tmp_path / "texts.txt").write_text("A good film", encoding="utf-8")
    command("embed", "run=start", "input=texts.txt", "output=vectors.npy")
    with torch.no_grad():
        hidden = theirs(**tokenizer("A good film", return_tensors="pt")).last_hidden_state[0]
    pooled = {Pooling.cls: hidden[0], Pooling.mean: hidden.mean(0), Pooling.max: hidden.amax(0)}
    expected = pooled[pooling].numpy()
    vectors = (np.load(tmp_path / "vectors.npy")[0], encoderlab.load(tmp_path / "start").embed("A good film")[0])
    for vector in vectors:
        np.testing.assert_allclose(vector, expected, atol=1e-2)  # Python computes in bf16 where that is faster
    start = load_pretrained(str(tmp_path / "start"))
    assert start.shape.pooling is pooling and "pool.dense.weight" not in start.weights


@pytest.mark.slow
def test_vectors_pooled_by_the_maximum_equal_those_of_sentence_transformers(tmp_path, command):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder_of("roberta", tmp_path / "there")
    (tmp_path / "there" / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}
    (tmp_path / "there" / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(kinds.items())
    ]
    (tmp_path / "there" / "modules.json").write_text(json.dumps(modules))
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "there"), device="cpu")
    texts = ["A good film", TEXTS[3], "né"]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    command("embed", "run=there", "input=texts.txt", "output=vectors.npy")
    np.testing.assert_allclose(np.load("vectors.npy"), theirs.encode(texts), atol=1e-5)

    table = rows_of(tmp_path / "rows.csv")
    data = ("task=classification", "dataset=files", f"dataset.path={table}")
    line = ("training=smoke", "training.device=cpu", "baselines=false", "run_dir=run", "cache_dir=cache")
    command("finetune", *data, "init_from=there", *line)
    assert read_model(tmp_path / "run" / "model").shape.pooling is Pooling.max
    with pytest.raises(SettingError, match="pooling=max"):
        command("export", "run=run", "format=huggingface", "path=back")


@pytest.mark.parametrize("module", ["Normalize", "Dense"])
def test_sentence_vectors_have_length_1_if_they_were_trained_so(tmp_path, command, module):
    folder_of("roberta", tmp_path / "start")
    modules = [{"idx": 2, "path": f"2_{module}", "type": f"sentence_transformers.models.{module}"}]
    (tmp_path / "start" / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "texts.txt").write_text("A good film", encoding="utf-8")
    pooling = ["pooling=mean"] if module == "Dense" else []  # without it, a module that is not read is refused
    command("embed", "run=start", "input=texts.txt", "output=vectors.npy", *pooling)
    command("embed", "run=start", "input=texts.txt", "output=as_they_are.npy", "normalize=false", *pooling)
    ours = encoderlab.load(tmp_path / "start").embed("A good film")[0]
    lengths = [np.linalg.norm(vector) for vector in (np.load("vectors.npy")[0], ours)]
    unscaled = np.linalg.norm(np.load("as_they_are.npy")[0])
    assert lengths == pytest.approx([1, 1] if module == "Normalize" else [unscaled, unscaled], rel=1e-2)
    assert abs(unscaled - 1) > 0.1


def test_sentence_vectors_that_are_pooled_in_another_way_are_refused(tmp_path, command):
    folder_of("roberta", tmp_path / "start")
    (tmp_path / "start" / "1_Pooling").mkdir()
    (tmp_path / "start" / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "lasttoken"}))
    (tmp_path / "texts.txt").write_text("A good film", encoding="utf-8")
    with pytest.raises(DataError, match="lasttoken. Allowed: cls, mean or max"):
        command("embed", "run=start", "input=texts.txt", "output=vectors.npy")


@pytest.mark.slow
def test_texts_of_a_pair_that_are_read_separately_are_read_as_single_texts(tmp_path, command):
    """Their vectors are those of `embed`, though RoBERTa's own pairs have two separators between their texts."""
    folder_of("roberta", tmp_path / "start")
    table = rows_of(tmp_path / "rows.csv", pairs=True)
    data = ("task=classification", "dataset=files", f"dataset.path={table}", "dataset.text_pair=other")
    line = ("training=smoke", "training.device=cpu", "baselines=false", "run_dir=run", "cache_dir=cache")
    command("finetune", *data, "init_from=start", "model.pairs=separate", "model.pooling=mean", *line)
    model = read_model(tmp_path / "run" / "model")
    pair = ("A good film", "né says")
    joint = model.rows([TextExample(*pair)]).gather(np.array([0]), model.tokenizer.pad_id)
    ids, mask = separate_texts(joint.input_ids, joint.token_type_ids, joint.attention_mask)
    singles = [model.rows([TextExample(text)]).gather(np.array([0]), model.tokenizer.pad_id) for text in pair]
    texts = [row[real].tolist() for row, real in zip(ids, mask, strict=True)]
    assert texts == [single.input_ids[0].tolist() for single in singles]
    assert model.network.separates_pairs


def rows_of(path, pairs=False):
    """Write a table of good and bad films."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", *(["other"] if pairs else []), "label"])
        for n, text in enumerate(TEXTS):
            writer.writerow([text, *([TEXTS[n - 7]] if pairs else []), "yes" if "good" in text else "no"])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("family", [name if name in FAST else pytest.param(name, marks=SLOW) for name in CONFIGS])
@pytest.mark.parametrize(("head", "pairs"), [("Model", False), ("ForMaskedLM", True)])
def test_a_finetuned_encoder_is_exported_to_its_family_with_equal_probabilities(
    family, head, pairs, tmp_path, command, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder_of(family, tmp_path / "start", head)
    table = rows_of(tmp_path / "rows.csv", pairs)
    data = ("task=classification", "dataset=files", f"dataset.path={table}")
    data += ("dataset.text_pair=other", "model.pairs=joint") if pairs else ()
    line = ("training=smoke", "training.device=cpu", "baselines=false", "run_dir=run", "cache_dir=cache")
    command("finetune", *data, "init_from=start", *line)
    command("export", "run=run", "format=huggingface", "path=back")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained("back").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("back")
    assert theirs.config.model_type == family
    both = ("A good film", "né says") if pairs else ("A good film",)
    with torch.no_grad():
        expected = theirs(**tokenizer(*both, return_tensors="pt")).logits.softmax(-1)[0]
    command("predict", "run=run", f"text={both[0]}", *([f"text_pair={both[1]}"] if pairs else []), "output=out.jsonl")
    command("predict", "run=back", f"text={both[0]}", *([f"text_pair={both[1]}"] if pairs else []), "output=back.jsonl")
    for file in ("out.jsonl", "back.jsonl"):
        row = json.loads((tmp_path / file).read_text(encoding="utf-8"))
        index = theirs.config.label2id[row["predicted"]]
        assert row["probability"] == pytest.approx(float(expected[index]), abs=2e-5)

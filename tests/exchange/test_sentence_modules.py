"""Folders of sentence-transformers whose vectors depend on more than an encoder and its pooling."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Pooling, Transformer

from encoderlab.errors import DataError

TEXTS = ["a good film", "number 7"]


@pytest.fixture(scope="module")
def sentence_folder(stand_in_encoders, tmp_path_factory, run_in, cache):
    """Return a plain folder of transformers, to put modules around."""
    folder = tmp_path_factory.mktemp("sentences") / "plain"
    run_in(cache, "export", f"run={stand_in_encoders / 'mini-en'}", "format=huggingface", f"path={folder}")
    return folder


def written(plain, path, *further, **settings):
    transformer = Transformer(str(plain), max_seq_length=32)
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    SentenceTransformer(modules=[transformer, pooling, *further], device="cpu", **settings).save(str(path))
    path.with_name("texts.txt").write_text("\n".join(TEXTS) + "\n")


@pytest.mark.slow
def test_a_dense_module_is_refused_with_a_way_out(command, sentence_folder, tmp_path, capsys):
    written(sentence_folder, tmp_path / "s", Dense(16, 4))
    with pytest.raises(DataError, match=r"Dense.*pooling=mean"):
        command("embed", "run=s", "input=texts.txt", "output=v.npy")
    command("embed", "run=s", "input=texts.txt", "output=v.npy", "pooling=mean")
    assert np.load(tmp_path / "v.npy").shape == (2, 16)
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"film {n},{n % 2}\n" for n in range(20)))
    command("finetune", "rows.csv", "init_from=s", "dry_run=true", "training.steps=2")
    assert "Dense" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("prompts", [{"query": "query: "}, {"query": ""}])
def test_a_default_prompt_is_named(command, sentence_folder, tmp_path, capsys, prompts):
    written(sentence_folder, tmp_path / "p", prompts=prompts, default_prompt_name="query")
    command("embed", "run=p", "input=texts.txt", "output=v.npy")
    assert ("query: " in capsys.readouterr().err) == bool(prompts["query"])
    model = SentenceTransformer(str(tmp_path / "p"), device="cpu")
    assert np.allclose(np.load(tmp_path / "v.npy"), model.encode(TEXTS, prompt=""), atol=1e-5)

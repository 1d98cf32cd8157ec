"""model.pairs=separate from end to end: what reads the texts of a pair separately, and what refuses to."""

import json

import pytest

from encoderlab.errors import SettingError


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("runs")
    rows = [f"word {n % 5},word {(n + n % 2) % 5},{('other', 'same')[1 - n % 2]}" for n in range(80)]
    (folder / "rows.csv").write_text("\n".join(["first,second,label", *rows]) + "\n", encoding="utf-8")
    columns = ("dataset.text=first", "dataset.text_pair=second", "dataset.label=label", "tokenizer.vocabulary_size=120")
    shape = ("model=tiny", "model.n_layers=1", "model.pairs=separate", "model.pooling=mean", "training=smoke")
    where = (f"dataset.path={folder / 'rows.csv'}", f"run_dir={folder / 'run'}", "training.threads=1")
    run_in(cache, "train", "task=classification", "dataset=files", *columns, *shape, *where)
    return folder / "run"


def test_a_pair_is_predicted_and_explained_as_its_settings_say(run, command, printed):
    assert printed("predict", f"run={run}", "text=word 1", "text_pair=word 2", "format=jsonl")["predicted"] in (
        "same",
        "other",
    )
    command("explain", f"run={run}", "text=word 1", "text_pair=word 2", "run_dir=why")
    assert json.loads((run / "model" / "config.json").read_text())["encoderlab"]["model"]["pairs"] == "separate"


def test_attention_maps_of_a_pair_and_one_vector_for_it_are_refused(run, command, tmp_path):
    with pytest.raises(SettingError, match=r"reads the texts of a pair separately.*use encoderlab explain"):
        command("attention", f"run={run}", "text=word 1", "text_pair=word 2")
    with pytest.raises(SettingError, match=r"A pair has no single vector.*Embed a file of first texts"):
        (tmp_path / "rows.csv").write_text("first,second\nword 1,word 2\n")
        command("embed", f"run={run}", "input=rows.csv", "output=vectors.npy")


def test_a_single_text_has_a_vector(run, command, tmp_path):
    (tmp_path / "texts.txt").write_text("word 1\nword 2\n")
    command("embed", f"run={run}", "input=texts.txt", "output=vectors.npy")
    assert (tmp_path / "vectors.npy").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")
def test_an_8_bit_graph_reads_the_texts_of_a_pair_separately_too(run, command, capsys, printed):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    command("export", f"run={run}", "format=int8", "path=small")
    assert "predictions change" in capsys.readouterr().out.splitlines()[-1]
    found = []
    for folder in (run, "small"):
        found.append(
            printed(
                "predict",
                f"run={folder}",
                "text=word 1",
                "text_pair=word 2",
                "format=jsonl",
                "precision=fp32",
                "probabilities=all",
            )
        )
    assert found[0]["probabilities"] == pytest.approx(found[1]["probabilities"], abs=0.05)

"""The settings of commands that use a finished run: how a file is read, and what is exact by default."""

import pytest

from encoderlab.config.inference_settings import EmbedConfig, ExplainConfig, PredictConfig, ServeConfig
from encoderlab.data.files.formats import Dialect, Quoting
from encoderlab.encoders.catalogue import SHIPPED
from encoderlab.errors import SettingError
from encoderlab.training.config import Precision


def test_the_settings_for_reading_a_file_are_one_value():
    config = PredictConfig(run="there", quoting=Quoting.literal, delimiter="semicolon", encoding="latin-1", sheet="May")
    assert config.dialect == Dialect(Quoting.literal, "semicolon", "latin-1", "May")


@pytest.mark.parametrize(
    ("schema", "settings", "refusal"),
    [
        (PredictConfig, {"delimiter": '"'}, "delimiter is '\"'. Allowed: auto, comma"),
        (PredictConfig, {"delimiter": "||"}, "delimiter is '||'"),
        (PredictConfig, {"encoding": "latin-99"}, "encoding"),
        (PredictConfig, {"top_k": 0}, "top_k is 0. Allowed: at least 1"),
        (PredictConfig, {"min_probability": 1.5}, "min_probability is 1.5"),
        (EmbedConfig, {"delimiter": "\n", "output": "x.npy"}, "delimiter is"),
        (ServeConfig, {"port": 65536}, "port is 65536. Allowed: .*at most 65535"),
        (ServeConfig, {"max_texts": 0}, "max_texts is 0"),
        (ExplainConfig, {"word": -1}, "word is -1"),
    ],
)
def test_impossible_settings_are_refused(schema, settings, refusal):
    with pytest.raises(SettingError, match=refusal.replace("|", r"\|")):
        schema(run="there", **settings)


def test_vectors_and_explanations_are_exact_by_default_and_vectors_need_no_run():
    assert EmbedConfig(output="x.npy").run == SHIPPED
    assert EmbedConfig(output="x.npy").precision is ExplainConfig(run="there").precision is Precision.fp32
    assert PredictConfig(run="there").precision is Precision.auto

"""Model settings: refusals in one line, the shipped files, and the effect of every setting."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from encoderlab.batch import HeadSizes
from encoderlab.errors import SettingError
from encoderlab.model.config import Activation, ModelConfig, Norm, NormPosition, Pooling, Positions
from encoderlab.model.heads import EncoderWithHeads

CONFIGS = Path(__file__).parents[2] / "configs"
SHIPPED = sorted(
    path.stem for path in (CONFIGS / "model").glob("*.yaml") if path.stem != "as_pretrained"
)  # that has no sizes

OTHER_VALUES = {
    "n_layers": 3,
    "d_model": 20,
    "n_heads": 4,
    "d_head": 6,
    "d_ff": 40,
    "positions": Positions.sinusoidal,
    "segments": 0,
    "scale_embeddings": True,
    "embedding_norm": False,
    "norm": Norm.rms,
    "norm_position": NormPosition.pre,
    "norm_epsilon": 0.1,
    "activation": Activation.relu,
    "bias": False,
    "pooling": Pooling.mean,
    "dropout": 0.5,
    "attention_dropout": 0.5,
    "word_dropout": 0.5,
    "initializer_range": 0.02,
}


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_every_setting_changes_the_output_of_a_model_in_training(name, make_model, make_batch):
    batch = make_batch([5, 3, 4])
    answers = []
    for settings in ({}, {name: OTHER_VALUES[name]}):
        model = make_model(**settings)
        torch.manual_seed(1)
        answers.append(model(batch).sequence_logits)
    assert not torch.allclose(*answers, atol=1e-4)


def test_no_setting_is_left_out_of_the_tests():
    elsewhere = {
        "name",
        "max_length",
        "tie_decoder",
        "pairs",
    }  # a label; test_encoder.py, test_heads.py and test_pairs.py
    assert {field.name for field in fields(ModelConfig)} == set(OTHER_VALUES) | elsewhere


def test_widths_that_are_not_set_are_derived():
    config = ModelConfig(d_model=24, n_heads=3)
    assert (config.head_width, config.feed_forward_width) == (8, 96)
    assert (ModelConfig(d_head=5, d_ff=7).head_width, ModelConfig(d_head=5, d_ff=7).feed_forward_width) == (5, 7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"d_model": 100, "n_heads": 3},
            "model.d_head cannot be derived: model.d_model=100 is not a multiple of model.n_heads=3. "
            "Set model.d_head=34, or model.d_model=99.",
        ),
        (
            {"d_model": 3, "n_heads": 8},
            "model.d_head cannot be derived: model.d_model=3 is not a multiple of model.n_heads=8. "
            "Set model.d_head=1, or model.d_model=8.",
        ),
        (
            {"d_head": 5, "positions": Positions.rotary},
            "model.positions=rotary rotates pairs of features, but model.d_head=5 is odd. Allowed: an even model.d_head. "
            "Set model.d_head=6, or model.positions=sinusoidal.",
        ),
        (
            {"n_layers": 0},
            "model.n_layers is 0. Allowed: at least 1, at most 1000. Remove model.n_layers to use its default.",
        ),
        (
            {"dropout": 0.91},
            "model.dropout is 0.91. Allowed: at least 0, at most 0.9. Remove model.dropout to use its default.",
        ),
        (
            {"segments": 1},
            "model.segments is 1. Allowed: 0 for none, or at least 2 for pairs. Set model.segments=0, or model.segments=2.",
        ),
        (
            {"norm_epsilon": float("nan")},
            "model.norm_epsilon is nan. Allowed: more than 0. Remove model.norm_epsilon to use its default.",
        ),
    ],
)
def test_an_impossible_shape_is_refused_with_a_remedy(settings, message):
    with pytest.raises(SettingError) as refused:
        ModelConfig(**settings)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *{"n_layers": 1000, "d_model": 65_536, "n_heads": 1024, "d_head": 4096, "d_ff": 65_536}.items(),
        *{
            "max_length": 1_048_576,
            "segments": 1024,
            "dropout": 0.9,
            "attention_dropout": 0.9,
            "word_dropout": 0.9,
        }.items(),
    ],
)
def test_a_typo_that_asks_for_far_too_much_is_refused(name, most):
    width = {} if name == "d_head" else {"d_head": 64}
    assert getattr(ModelConfig(**{name: most}, **width), name) == most
    with pytest.raises(SettingError, match=f"^model.{name} is .* Allowed: at least [01], at most "):
        ModelConfig(**{name: most * 1.05 if most < 1 else most + 1}, **width)


@pytest.mark.parametrize("positions", Positions)
@pytest.mark.parametrize("d_model", [5, 6])
def test_any_width_works_with_any_positions_if_rotary_heads_are_even(positions, d_model, make_model, make_batch):
    model = make_model(d_model=d_model, n_heads=1, d_head=4, positions=positions)
    assert model(make_batch([3, 2])).sequence_logits.shape == (2, 3)


def with_length(config):
    """Return the settings with a length, which a run takes from its rows."""
    return replace(config, max_length=config.max_length or 128)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_model_builds_and_gives_logits(name, make_batch):
    path = CONFIGS / "model" / f"{name}.yaml"
    ConfigStore.instance().store(group="model", name="model_schema", node=ModelConfig)
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        composed = compose(f"model/{name}").model
    config = with_length(OmegaConf.to_object(composed))
    assert path.read_text().startswith("# ")
    assert config.name == name
    with torch.device("meta"):  # shapes without the memory of the larger ones
        model = EncoderWithHeads(config, 30522, 0, HeadSizes(2))
    assert sum(model.parameters_by_part().values()) == model.n_parameters
    if model.n_parameters < 12e6:
        torch.manual_seed(0)
        assert (
            EncoderWithHeads(config, 13, 0, HeadSizes(2, 5)).eval()(make_batch([5, 3])).sequence_logits.isfinite().all()
        )


@pytest.mark.parametrize(
    ("name", "parameters"), [("tiny", 4.4e6), ("mini", 11.2e6), ("small", 28.8e6), ("medium", 41.4e6), ("base", 110e6)]
)
def test_the_sizes_are_googles(name, parameters):
    settings = OmegaConf.load(CONFIGS / "model" / f"{name}.yaml")
    del settings["defaults"]
    with torch.device("meta"):
        config = with_length(OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), settings)))
        model = EncoderWithHeads(config, 30522, 0, HeadSizes())
    without_pooler_and_far_positions = model.n_parameters
    assert without_pooler_and_far_positions == pytest.approx(parameters, rel=0.03)


def test_reading_the_settings_does_not_import_torch():
    code = "import sys, encoderlab.model.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

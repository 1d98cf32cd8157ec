"""Model settings: refusals in one line, the shipped files, and the effect of every setting."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from encoderlab.errors import SettingError
from encoderlab.network.config import Activation, Head, HeadSizes, ModelConfig, Norm, NormPosition, Pooling, Positions
from encoderlab.network.heads import EncoderWithHeads

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
    "d_embedding": 6,
    "positions": Positions.sinusoidal,
    "segments": 0,
    "head": Head.prediction,
    "relative_buckets": 8,
    "embedding_norm": False,
    "norm": Norm.rms,
    "norm_position": NormPosition.pre,
    "norm_epsilon": 0.1,
    "activation": Activation.relu,
    "bias": False,
    "pooling": Pooling.mean,
    "dropout": 0.5,
    "attention_dropout": 0.5,
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


@pytest.mark.parametrize("positions", Positions)
@pytest.mark.parametrize("d_model", [5, 6])
def test_any_width_works_with_any_positions_if_rotary_heads_are_even(positions, d_model, make_model, make_batch):
    model = make_model(d_model=d_model, n_heads=1, d_head=4, positions=positions)
    assert model(make_batch([3, 2])).sequence_logits.shape == (2, 3)


def resolve_length(config):
    """Return the settings with a length, which a run takes from its rows."""
    return replace(config, max_length=config.max_length or 128)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_model_builds_and_gives_logits(name, make_batch):
    path = CONFIGS / "model" / f"{name}.yaml"
    ConfigStore.instance().store(group="model", name="model_schema", node=ModelConfig)
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        composed = compose(f"model/{name}").model
    config = resolve_length(OmegaConf.to_object(composed))
    assert path.read_text().startswith("# ")
    assert config.name == name
    with torch.device("meta"):  # shapes without the memory of the larger ones
        model = EncoderWithHeads(config, 30522, 0, HeadSizes(2))
    assert sum(model.parameters_by_part().values()) == model.n_parameters
    if model.n_parameters < 12e6:
        torch.manual_seed(0)
        model = EncoderWithHeads(config, 13, 0, HeadSizes(2, 5)).eval()
        assert model(make_batch([5, 3])).sequence_logits.isfinite().all()


@pytest.mark.parametrize(
    ("name", "parameters"), [("tiny", 4.4e6), ("mini", 11.2e6), ("small", 28.8e6), ("medium", 41.4e6), ("base", 110e6)]
)
def test_the_sizes_are_googles(name, parameters):
    settings = OmegaConf.load(CONFIGS / "model" / f"{name}.yaml")
    del settings["defaults"]
    with torch.device("meta"):
        config = resolve_length(OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), settings)))
        model = EncoderWithHeads(config, 30522, 0, HeadSizes())
    without_pooler_and_far_positions = model.n_parameters
    assert without_pooler_and_far_positions == pytest.approx(parameters, rel=0.03)


@pytest.mark.parametrize("positions", [Positions.sinusoidal, Positions.rotary])
def test_a_table_of_positions_that_would_fill_the_memory_is_refused(positions):
    with pytest.raises(SettingError, match=r"needs tables of .* Set model\.max_length="):
        ModelConfig(positions=positions, max_length=1048576, d_model=1024, n_heads=16, n_layers=4)
    ModelConfig(positions=positions, max_length=65536)


@pytest.mark.parametrize("positions", list(Positions))
def test_what_a_refusal_of_heads_offers_is_valid(positions):
    offered = 0
    for d_model in (1, 2, 6, 9, 30, 64, 127, 128, 8191, 8193, 65535):
        for n_heads in (1, 2, 3, 5, 12, 1000, 1024):
            for d_head in (None, 5, 4095):
                settings: dict[str, Any] = {
                    "d_model": d_model,
                    "n_heads": n_heads,
                    "d_head": d_head,
                    "positions": positions,
                }
                try:
                    ModelConfig(**settings)
                except SettingError as refused:
                    found = re.findall(r"model\.(\w+)=(\w+)", refused.remedy)
                    assert found
                    for name, value in found:
                        changed: Any = Positions[value] if name == "positions" else int(value)
                        ModelConfig(**settings | {name: changed})
                        offered += 1
    assert offered > 20

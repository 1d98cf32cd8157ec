"""The settings of commands: contradictory combinations are refused with what to remove."""

import pytest

from encoderlab.config.command_settings import (
    DistillConfig,
    EvalConfig,
    FinetuneConfig,
    PretrainConfig,
    RunConfig,
    SweepConfig,
)
from encoderlab.data.sources.generated import BracketsDataset
from encoderlab.data.tokenizers.config import SymbolsConfig
from encoderlab.encoders.catalogue import SHIPPED
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig


def settings_of(schema, dataset=None, **settings):
    return schema(
        task=ClassificationConfig(name="brackets"),
        dataset=dataset or BracketsDataset(),
        tokenizer=SymbolsConfig(),
        model=ModelConfig(),
        training=TrainingConfig(),
        **settings,
    )


def test_every_run_tells_which_encoder_it_starts_from():
    assert settings_of(RunConfig).starts_from is None
    assert settings_of(FinetuneConfig).starts_from == SHIPPED
    for schema in (PretrainConfig, FinetuneConfig, DistillConfig):
        assert settings_of(schema, init_from="an encoder").starts_from == "an encoder"


@pytest.mark.parametrize(
    ("schema", "settings", "refusal"),
    [
        (RunConfig, {"cache_dir": ""}, r"cache_dir is empty\. Allowed: a folder\. Remove it"),
        (RunConfig, {"seed": -1}, r"seed is -1\. Allowed: at least 0"),
        (RunConfig, {"folds": 1}, r"folds is 1\. Allowed: at least 2"),
        (
            RunConfig,
            {"folds": 3, "dataset": BracketsDataset(fold="1/3")},
            r"folds=3 runs every fold, but dataset\.fold=1/3 selects one",
        ),
        (
            RunConfig,
            {"dry_run": True, "resume": "auto"},
            r"dry_run=true estimates a new run, but resume=auto continues an existing one",
        ),
        (
            RunConfig,
            {"trackers": ["tensorbord"]},
            r"Unknown tracker tensorbord\. Allowed: tensorboard, .* Did you mean trackers=\[tensorboard\]\?",
        ),
        (RunConfig, {"trackers": ["x"]}, r"Unknown tracker x\. Allowed: tensorboard, wandb\.$"),
        (
            PretrainConfig,
            {"folds": 2},
            r"folds=2 does not work with pretraining: documents have no labels .*use encoderlab train or finetune",
        ),
        (DistillConfig, {"folds": 2}, r"folds=2 does not work with distillation"),
        (DistillConfig, {"temperature": 0.0}, r"temperature is 0\.0\. Allowed: more than 0"),
        (DistillConfig, {"teacher_weight": 1.5}, r"teacher_weight is 1\.5\. Allowed: .*at most 1"),
        (FinetuneConfig, {"adapt": "5"}, r"adapt=5 is not a time\..*Set adapt=30m"),
    ],
)
def test_impossible_settings_are_refused(schema, settings, refusal):
    with pytest.raises(SettingError, match=refusal) as refused:
        settings_of(schema, **settings)
    assert "\n" not in str(refused.value)


def test_cross_validation_works_with_finetune_and_a_single_fold_can_be_trained():
    assert settings_of(FinetuneConfig, folds=5).folds == 5
    assert settings_of(RunConfig, BracketsDataset(fold="1/3")).dataset.fold == "1/3"
    assert settings_of(FinetuneConfig, adapt="90s").adapt == "90s"


def test_commands_that_open_a_run_and_sweeps_check_their_ranges_too():
    with pytest.raises(SettingError, match="threads is 0. Allowed: at least 1"):
        EvalConfig(run="there", threads=0)
    with pytest.raises(SettingError, match="takeover_seconds is 0"):
        SweepConfig(takeover_seconds=0)

"""The models of shipped experiments as arguments, the smallest that tests train."""

import json

import yaml

from encoderlab.cli.main import config_folder


def model_of(experiment):
    """Return the model settings of an experiment as command-line arguments."""
    stated = yaml.safe_load((config_folder() / "experiment" / f"{experiment}.yaml").read_text(encoding="utf-8"))[
        "model"
    ]
    return tuple(
        f"model.{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in stated.items()
    )


REVERSE_MODEL, BRACKETS_MODEL = model_of("notebook_reverse"), model_of("notebook_brackets")

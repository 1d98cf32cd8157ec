"""From command-line arguments to typed settings."""

from pathlib import Path

TRAINING_COMMANDS = ("train", "pretrain", "finetune", "distill")  # whose runs resume, and have recipes and sweeps


def config_folder() -> Path:
    """Return the shipped configs: inside the package in a wheel, at the top of the repository in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parents[1] / "configs"

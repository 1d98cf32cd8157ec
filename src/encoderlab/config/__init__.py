"""From command-line arguments to typed settings."""

from pathlib import Path

TRAINING_COMMANDS = ("train", "pretrain", "finetune", "distill")  # whose runs resume, and have experiments and sweeps


def config_folder() -> Path:
    """Return the shipped configs: inside the package in a wheel, at the top of the repository in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parents[1] / "configs"


def config_file(name: str, config_dir: str | None) -> Path | None:
    """Return the file of a config such as task/sst2: a shipped one, or one of the user's own in `config_dir`."""
    folders = [config_folder(), *([Path(config_dir)] if config_dir else [])]
    files = [folder / f"{name}.yaml" for folder in folders]
    return next(filter(Path.is_file, files), None)

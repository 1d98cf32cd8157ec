"""A model of the Hugging Face hub as a local folder: its settings, its weights as safetensors, its tokenizer, and
nothing else.
"""

from __future__ import annotations

from pathlib import Path

from encoderlab.encoders.catalogue import shipped_folder
from encoderlab.errors import DataError
from encoderlab.system.hub_access import http_error, hub_answers, quiet

WANTED = [
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "1_Pooling/config.json",
]


def at_hand(name: str) -> bool:
    """Return whether a run can start from this name now: an intact shipped encoder, or a model in the hub's cache or on
    a hub.
    """
    try:
        return shipped_folder(name) is not None or _is_kept(name) or _is_on_the_hub(name)
    except DataError:  # a shipped encoder that is damaged
        return False


def _is_kept(name: str) -> bool:
    from huggingface_hub import snapshot_download

    try:
        return any(
            Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=True)).glob("model*.safetensors")
        )
    except (OSError, ValueError, http_error()):  # LocalEntryNotFoundError, HFValidationError
        return False


def _is_on_the_hub(name: str) -> bool:
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE or not hub_answers(constants.ENDPOINT):
        return False
    try:
        HfApi().model_info(name, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except (OSError, ValueError, http_error()):
        return False
    return True


def fetch_model_folder(name_or_path: str) -> Path:
    """Return the folder itself or, for a name on the hub, one in the hub's cache (HF_HOME), updated if the hub answers.

    Pickles and code are never downloaded. Raises DataError if there is no such model, or if it can neither be
    downloaded nor is in the cache.
    """
    given = Path(name_or_path).expanduser()
    if given.is_dir():
        return given
    folder, online = _fetched(name_or_path)
    if not online and not any(folder.glob("model*.safetensors")):
        raise _unreachable(name_or_path, "has no weights of it")
    if not any(folder.glob("model*.safetensors")):
        raise DataError(
            f"{name_or_path} has no readable weights",
            allowed="a model with model.safetensors",
            remedy="If it has weights in another format and you trust them, convert them with transformers' save_pretrained",
        )
    return folder


def _fetched(name: str) -> tuple[Path, bool]:
    """Return the folder in the hub's cache, and whether the hub was reached."""
    from huggingface_hub import constants, errors, snapshot_download

    online = not constants.HF_HUB_OFFLINE and hub_answers(constants.ENDPOINT)
    try:
        with quiet():
            return Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=not online)), online
    except errors.HFValidationError:
        raise DataError(
            f"{name} is neither a folder nor a valid name on the hub", allowed="a folder, or OWNER/NAME"
        ) from None
    except (errors.RepositoryNotFoundError, errors.GatedRepoError):
        raise DataError(
            f"{name} is not a folder, and not on the hub {constants.ENDPOINT} (or needs a login)",
            allowed="a folder, or OWNER/NAME",
        ) from None
    except errors.LocalEntryNotFoundError:
        raise _unreachable(name, "lacks it") from None
    except (OSError, http_error()) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")[:200]
        raise DataError(f"{name} cannot be downloaded from the hub: {reason}", remedy="Try again") from None


def _unreachable(name: str, cache: str) -> DataError:
    from huggingface_hub import constants

    return DataError(
        f"{name} is not a folder, the hub {constants.ENDPOINT} cannot be reached, and the cache {constants.HF_HUB_CACHE} {cache}",
        remedy="Check the name and the network (HF_ENDPOINT, HF_HUB_OFFLINE), or set HF_HOME to a cache that has it",
    )

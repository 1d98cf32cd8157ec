"""Trackers: TensorBoard and Weights & Biases receive what metrics.jsonl receives, if requested."""

from __future__ import annotations

import json
import math
import netrc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol
from urllib.parse import urlsplit

from tqdm import tqdm

from encoderlab.config.commands import RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import SettingError, one_line
from encoderlab.runs.folder import RunFolder
from encoderlab.settings import flat_settings
from encoderlab.system.files import atomic_write_text


def check_trackers(names: Sequence[str]) -> None:
    """Raise SettingError for trackers whose library is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise SettingError(
            f"trackers=[{','.join(names)}] needs libraries that are not installed: {', '.join(missing)}",
            remedy=f"Run pip install 'encoderlab[{','.join(missing)}]', or remove trackers",
        )


class Tracker(Protocol):
    """A run in a tracking library, opened on construction."""

    def log(self, step: int, scores: Mapping[str, float]) -> None:
        """Record numbers after a step."""

    def close(self, finished: bool) -> None:
        """Write everything that is pending, and mark the run as finished or not."""


class TensorBoard:
    """Event files in the run folder: `tensorboard --logdir outputs` shows them."""

    def __init__(self, folder: RunFolder, name: str, settings: Mapping[str, Any]) -> None:
        import tensorboard  # noqa: F401  torch's own message about it is unclear

        self._folder, self._settings, self._writer = str(folder.root / "tensorboard"), settings, None

    def log(self, step: int, scores: Mapping[str, float]) -> None:
        """Record numbers; those that a resumed run repeats replace the earlier ones."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self._folder, purge_step=step)
            lines = [f"    {name}: {value}" for name, value in flat_settings(self._settings)]
            self._writer.add_text("settings", "\n".join(lines), step)
        for name, value in scores.items():
            self._writer.add_scalar(name, value, step)

    def close(self, finished: bool) -> None:
        """Write what is pending."""
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """A run on the server if the user is logged in, otherwise in the run folder, for `wandb sync` to upload.

    WANDB_MODE and WANDB_PROJECT override this. It never prompts.
    """

    def __init__(self, folder: RunFolder, name: str, settings: Mapping[str, Any]) -> None:
        import wandb  # pyright: ignore[reportMissingImports]  an extra of its own

        known = json.loads(folder.trackers.read_text(encoding="utf-8")) if folder.trackers.is_file() else {}
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "encoderlab"),
            name=name,
            id=known.get("wandb"),
            resume="allow",
            dir=str(folder.root),
            config=dict(settings),
            mode=os.environ.get("WANDB_MODE") or ("online" if _logged_in_to_wandb() else "offline"),
            settings=wandb.Settings(silent=True, console="off", init_timeout=60),
        )
        self._run.define_metric("*", step_metric="step")  # wandb's own counter never goes back, but a resumed run may
        atomic_write_text(folder.trackers, json.dumps({"wandb": self._run.id}) + "\n")

    def log(self, step: int, scores: Mapping[str, float]) -> None:
        """Record numbers after a step."""
        self._run.log({"step": step, **scores})

    def close(self, finished: bool) -> None:
        """End the run on the server, or in its files."""
        self._run.finish(exit_code=0 if finished else 1)


LIBRARIES: dict[str, Callable[[RunFolder, str, Mapping[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


class Trackers:
    """All trackers of a run. One that fails is reported once and dropped: an error in a library must not end a run."""

    def __init__(self) -> None:
        self._open: dict[str, Tracker] = {}

    def open(self, name: str, make: Callable[[], Tracker]) -> None:
        """Open a tracker."""
        with self._dropped_on_error(name):
            self._open[name] = make()

    def log(self, line: Mapping[str, Any]) -> None:
        """Send a line of metrics.jsonl: a step's numbers as train/..., those of an evaluation under its
        split's name.
        """
        if line["kind"] in ("step", "evaluation"):
            place = "train" if line["kind"] == "step" else line["split"]
            own = {name: value for name, value in line.items() if name not in ("step", "epoch")}
            self._log(line["step"], {place: own})

    def report(self, report: Mapping[str, Any]) -> None:
        """Send the scores of report.json: of each split, and of each baseline."""
        parts = {f"report/{name}": one for name, one in report["splits"].items()}
        parts |= {f"report/baseline/{name}": one for name, one in report["baselines"].items()}
        self._log(report["checkpoint"]["step"], parts)

    def close(self, finished: bool) -> None:
        """Let everything be written, and end the run as finished, or as interrupted or failed."""
        for name, tracker in list(self._open.items()):
            with self._dropped_on_error(name):
                tracker.close(finished)

    def _log(self, step: int, parts: Mapping[str, Mapping[str, Any]]) -> None:
        if not self._open:
            return
        scores = {
            f"{part}/{name}": value for part, one in parts.items() for name, value in one.items() if _finite(value)
        }
        for name, tracker in list(self._open.items()):
            with self._dropped_on_error(name):
                tracker.log(step, scores)

    @contextmanager
    def _dropped_on_error(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            self._open.pop(name, None)
            reason = one_line(f"{type(error).__name__}: {error}")[:300]
            tqdm.write(f"encoderlab: {name} has failed ({reason}): the run continues without it", file=sys.stderr)


@contextmanager
def tracked(config: RunConfig, command: str, folder: RunFolder) -> Iterator[Trackers]:
    """Open the requested trackers; a resumed run continues its record there."""
    name, settings = f"{command}-{config.task.name}-{folder.root.absolute().name}", settings_to_dict(config)
    trackers, finished = Trackers(), False
    for library in config.trackers:
        trackers.open(library, lambda library=library: LIBRARIES[library](folder, name, settings))
    try:
        yield trackers
        finished = True
    finally:
        trackers.close(finished)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _logged_in_to_wandb() -> bool:
    """Return whether there is a key: in the environment, or where `wandb login` writes it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False

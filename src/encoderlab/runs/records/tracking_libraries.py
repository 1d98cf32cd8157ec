"""What each tracking library receives: one class per library, imported where it is used.

None of them may prompt the user: what they need is in their own environment variables, or chosen here.
"""

from __future__ import annotations

import netrc
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from encoderlab.settings import flat_settings

PROJECT = "encoderlab"


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that is tracked: its name, its folder, and its settings as plain values."""

    name: str
    folder: Path
    settings: Mapping[str, Any]


class Tracker(Protocol):
    """A run in a tracking library, opened on construction."""

    @property
    def id(self) -> str | None:
        """Return the id by which the run is found again."""
        ...

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Record the figures of a step."""
        ...

    def report(self, step: int, figures: Mapping[str, float]) -> None:
        """Record the final figures, those of the weights after `step`."""
        ...

    def close(self, finished: bool) -> None:
        """Write everything that is pending, and mark the run as finished or not."""
        ...


class TensorBoard:
    """Event files in the run folder: `tensorboard --logdir outputs` shows them."""

    def __init__(self, subject: Subject, known: str | None) -> None:
        import tensorboard  # noqa: F401  torch's own message about it is unclear

        self.id, self._subject, self._writer = "tensorboard", subject, None

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`. An earlier process's records from this step on are hidden, because the steps are taken
        again.
        """
        for name, value in figures.items():
            self._open(step).add_scalar(name, value, step)

    def report(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.report`. The settings are recorded as text."""
        lines = [f"    {name}: {value}" for name, value in flat_settings(self._subject.settings)]
        self._open(step).add_text("settings", "\n".join(lines), step)
        self.log(step, figures)

    def close(self, finished: bool) -> None:
        """See `Tracker.close`."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, step: int) -> Any:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._subject.folder / self.id), purge_step=step)
        return self._writer


class WeightsAndBiases:
    """A run of the project `encoderlab` (WANDB_PROJECT): on the server if the user is logged in, otherwise in the run
    folder.

    WANDB_MODE overrides this. `wandb sync` uploads what is in the folder.
    """

    def __init__(self, subject: Subject, known: str | None) -> None:
        import wandb  # pyright: ignore[reportMissingImports]  an extra of its own

        mode = os.environ.get("WANDB_MODE") or ("online" if _logged_in_to_wandb() else "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=subject.name,
            id=known,
            resume="allow",
            dir=str(subject.folder),
            config=dict(subject.settings),
            mode=mode,
            settings=wandb.Settings(silent=True, console="off", init_timeout=60),
        )
        self._run.define_metric("*", step_metric="step")  # wandb's own counter never goes back, but a resumed run may
        self.id = self._run.id

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`."""
        self._run.log({"step": step, **figures})

    def report(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.report`."""
        self._run.summary.update({"report/step": step, **figures})

    def close(self, finished: bool) -> None:
        """See `Tracker.close`."""
        self._run.finish(exit_code=0 if finished else 1)


def _logged_in_to_wandb() -> bool:
    """Return whether there is a key: in the environment, or where `wandb login` writes it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


LIBRARIES: dict[str, Callable[[Subject, str | None], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}

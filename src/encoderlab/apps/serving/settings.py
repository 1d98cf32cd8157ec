"""The settings of `serve`."""

from dataclasses import dataclass
from typing import ClassVar

from encoderlab.config.commands import UNLIKE_TRAINING, Examples, OpenRunConfig
from encoderlab.settings import setting


@dataclass
class ServeConfig(OpenRunConfig):
    """Serve a finished run over HTTP on this machine, with a web page to try it."""

    command: ClassVar[str] = "serve"
    example_lines: ClassVar[Examples] = (
        ("run=...", "a web page to try the run, at http://127.0.0.1:8000/; port=0: any free port"),
    )

    host: str = setting("127.0.0.1", "Address to listen on; 127.0.0.1: for this machine only, 0.0.0.0: others too.")
    port: int = setting(8000, "Port to listen on; 0: any free port.", minimum=0, maximum=65535)
    min_probability: float | None = setting(None, "Give no label (null) below this probability.", minimum=0, maximum=1)
    unlike_training: float | None = setting(None, UNLIKE_TRAINING, above=0, below=1)

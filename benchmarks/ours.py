"""Our side of prediction and of vectors: the time of a whole command, minus that of opening its model."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import replace

from benchmarks.peers.texts import first_lines, options_parser, speed
from encoderlab.commands.embed import embed
from encoderlab.commands.predict import predict
from encoderlab.config.commands import EmbedConfig, PredictConfig
from encoderlab.models.folder import open_model
from encoderlab.training.config import Precision


def main() -> None:
    """Predict or embed every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__)
    parser.add_argument("--command", choices=("predict", "embed"), required=True, help="what to measure")
    parser.add_argument("--run", required=True, help="run folder or Hugging Face folder")
    parser.add_argument("--precision", type=Precision, default=Precision.auto, help="auto, fp32 or bf16")
    options = parser.parse_args()
    texts, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    one, _ = first_lines(options.input, 1, options.output / "one.txt")
    run = {"run": options.run, "cache_dir": str(options.output), "threads": options.threads, "input": str(one)}
    if options.command == "embed":
        command = embed
        config = EmbedConfig(**run, normalize=True)
        ending = "npy"
    else:
        command = predict
        config = PredictConfig(**run, precision=options.precision)
        ending = "csv"
    command(replace(config, output=str(options.output / f"one.{ending}")))  # the first of a process is slower
    measured = []
    for number in range(options.repeats):
        this = replace(config, input=str(texts), output=str(options.output / f"{number}.{ending}"))
        started = time.perf_counter()
        command(this)
        opened = time.perf_counter()
        open_model(this)
        measured.append((opened - started) - (time.perf_counter() - opened))
    print(json.dumps(speed(statistics.median(measured), count)))


if __name__ == "__main__":
    main()

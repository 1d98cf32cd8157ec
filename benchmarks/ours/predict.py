"""Our side of prediction: what `encoderlab predict` takes once its model is open."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.texts import first_lines
from encoderlab.commands.predict import predict
from encoderlab.config.inference_settings import PredictConfig
from encoderlab.runs.models.assembly import reopen


def main() -> None:
    """Answer for every line of the input, as often as asked, and print the median speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="folder of the finished run")
    parser.add_argument("--input", type=Path, required=True, help="a text in each line")
    parser.add_argument("--output", type=Path, required=True, help="folder for the answers")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=1, help="how often it is measured")
    parser.add_argument("--limit", type=int, help="this many texts only")
    options = parser.parse_args()
    texts, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    one = PredictConfig(cache_dir=str(options.output), run=options.run, threads=options.threads, text="warming up")
    predict(replace(one, output=str(options.output / "one.csv")))
    config = replace(one, text=None, input=str(texts))
    measured = [_seconds(replace(config, output=str(options.output / f"{n}.csv"))) for n in range(options.repeats)]
    seconds = statistics.median(measured)
    print(json.dumps({"seconds": round(seconds, 3), "examples_per_second": round(count / seconds, 1), "texts": count}))


def _seconds(config: PredictConfig) -> float:
    """Seconds of the whole command, less those of opening its model once more."""
    started = time.perf_counter()
    predict(config)
    opened = time.perf_counter()
    reopen(config)
    return (opened - started) - (time.perf_counter() - opened)


if __name__ == "__main__":
    main()

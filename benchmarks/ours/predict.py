"""Our side of prediction: the time of `encoderlab predict` once its model is open."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace

from benchmarks.ours.opened import seconds_once_open
from benchmarks.texts import first_lines, options_parser, speed
from encoderlab.commands.predict import predict
from encoderlab.config.commands import PredictConfig
from encoderlab.training.config import Precision


def main() -> None:
    """Predict every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__, output="answers")
    parser.add_argument("--run", required=True, help="folder of the finished run")
    parser.add_argument("--precision", type=Precision, default=Precision.auto, help="auto, fp32 or bf16")
    options = parser.parse_args()
    texts, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    common = {"cache_dir": str(options.output), "threads": options.threads, "precision": options.precision}
    one = PredictConfig(run=options.run, text="warming up", **common)
    predict(replace(one, output=str(options.output / "one.csv")))
    config = replace(one, text=None, input=str(texts))
    configs = [replace(config, output=str(options.output / f"{n}.csv")) for n in range(options.repeats)]
    measured = [seconds_once_open(predict, one) for one in configs]
    seconds = statistics.median(measured)
    print(json.dumps(speed(seconds, count)))


if __name__ == "__main__":
    main()

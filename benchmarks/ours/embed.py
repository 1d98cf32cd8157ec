"""Our side of embedding: what `encoderlab embed` takes once its encoder is open."""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

from benchmarks.ours.opened import seconds_once_open
from benchmarks.texts import first_lines
from encoderlab.commands.embed import embed
from encoderlab.config.inference_settings import EmbedConfig


def main() -> None:
    """Write the vectors of every line of the input, as often as asked, and print the median speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", required=True, help="run folder, or folder of Hugging Face's")
    parser.add_argument("--input", type=Path, required=True, help="a text in each line")
    parser.add_argument("--output", type=Path, required=True, help="folder for the vectors")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=1, help="how often it is measured")
    parser.add_argument("--limit", type=int, help="this many texts only")
    options = parser.parse_args()
    texts, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    warming_up, _ = first_lines(options.input, 1, options.output / "one.txt")
    config = EmbedConfig(
        cache_dir=str(options.output),
        run=options.encoder,
        threads=options.threads,
        input=str(warming_up),
        output=str(options.output / "one.npy"),
        normalize=True,
    )
    embed(config)
    configs = [replace(config, input=str(texts), output=str(options.output / f"{n}.npy")) for n in range(options.repeats)]
    seconds = statistics.median(seconds_once_open(embed, one) for one in configs)
    print(json.dumps({"seconds": round(seconds, 3), "examples_per_second": round(count / seconds, 1), "texts": count}))


if __name__ == "__main__":
    main()

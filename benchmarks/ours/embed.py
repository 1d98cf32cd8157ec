"""Our side of embedding: the time of `encoderlab embed` once its encoder is open."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace

from benchmarks.ours.opened import seconds_once_open
from benchmarks.texts import first_lines, options_parser, speed
from encoderlab.commands.embed import embed
from encoderlab.config.commands import EmbedConfig


def main() -> None:
    """Write the vectors of every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__, output="vectors")
    parser.add_argument("--encoder", required=True, help="run folder or Hugging Face folder")
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
    configs = [
        replace(config, input=str(texts), output=str(options.output / f"{n}.npy")) for n in range(options.repeats)
    ]
    seconds = statistics.median(seconds_once_open(embed, one) for one in configs)
    print(json.dumps(speed(seconds, count)))


if __name__ == "__main__":
    main()

"""Our command line with padding left in, to measure what removing it is worth."""

import sys

from encoderlab.cli.main import main
from encoderlab.model import heads


def never(*_: object, **__: object) -> bool:
    """Return that no batch is worth packing."""
    return False


if __name__ == "__main__":
    heads.worth_packing = never
    sys.argv[0] = "encoderlab"
    main()

"""`python -m tests.growth [word ...]`: inputs that grow, all or those that there is time for, or with one of the words.

Ends with 1 if any takes more time than in proportion to its size, makes an error of Python, or does not end. `make fuzz` runs it.
"""

from __future__ import annotations

import argparse
import random
import sys

from tests.growth.search import search


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.growth", description="Looks for inputs that take too long as they grow."
    )
    parser.add_argument("--seconds", type=float, help="how long to go on (default: until all have been tried)")
    parser.add_argument("words", nargs="*", metavar="word", help="only inputs whose names have one of these")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32), help="of the order, and of texts that are made up")
    options = parser.parse_args()
    return 1 if search(options.seconds, options.words, options.seed) else 0


if __name__ == "__main__":
    sys.exit(main())

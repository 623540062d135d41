"""`python -m tests.growth [seconds] [word ...]`: inputs that grow, all or those that there is time for, or with one of the words.

Ends with 1 if any takes more time than in proportion to its size, makes an error of Python, or does not end.
"""

from __future__ import annotations

import sys

from tests.growth.search import search

if __name__ == "__main__":
    given = sys.argv[1:]
    seconds = float(given.pop(0)) if given and given[0].isdecimal() else None
    sys.exit(1 if search(seconds, given) else 0)

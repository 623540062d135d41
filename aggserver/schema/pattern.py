r"""Pattern: regular expressions as Go reads them, which is RE2.

`error` says in Go's words what is wrong with one. Python's `re` has another syntax, and takes exponential time over some.
The only module of definitions that knows the library. Pure.
Source: Go's regexp/syntax (ErrorCode), 1.26; google-re2 agrees with it but for a few texts and `\C`, which Go refuses.
"""

from __future__ import annotations

import functools
import re

import re2

__all__ = ["error"]

# RE2's words for an error -> Go's.
_WORDS = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid UTF-8": "invalid UTF-8",
    "pattern too large - compile failed": "expression too large",
}


_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


@functools.lru_cache(maxsize=4096)
def error(text: str) -> str:
    """What Go's regexp.Compile says of an expression; '' if it takes it."""
    if _ANY_BYTE.search(text):
        return "error parsing regexp: invalid escape sequence: `\\C`"
    try:
        re2.compile(text, options=_options())
    except re2.error as raised:
        return f"error parsing regexp: {_in_go_words(raised.args[0].decode('utf-8', 'replace'), text)}"
    return ""


def _in_go_words(why: str, text: str) -> str:
    if why.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    for words in sorted(_WORDS, key=len, reverse=True):
        if why.startswith(words):
            rest = why[len(words) :].removeprefix(": ")
            return f"{_WORDS[words]}: `{rest or text}`"
    words, _, rest = why.partition(": ")
    return f"{words}: `{rest}`"

"""Escaping: names of properties as CEL identifiers.

Pure. Source: k8s.io/apiserver pkg/cel/escaping.go, v0.36.3.
"""

from __future__ import annotations

import re

__all__ = ["escape", "is_reserved", "unescape"]

_RESERVED = re.compile(
    "as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true|var|void|while"
)
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_ESCAPED = re.compile(r"__|[./-]")
_NAMES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def is_reserved(name: str) -> bool:
    """Whether it is a reserved word of CEL. All can be escaped with underscores; most can also be used as a field directly."""
    return _RESERVED.fullmatch(name) is not None


def escape(name: str) -> str | None:
    """The identifier of a property; None if there is none, so that expressions can't access it."""
    if is_reserved(name):
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda match: _NAMES[match[0]], name)


_EXPANDED = re.compile("__([^_]+)__")
_CHARACTERS = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def unescape(identifier: str) -> str | None:
    """The property that an identifier stands for; None if it is no escaped name."""
    whole = _EXPANDED.fullmatch(identifier)
    if whole and is_reserved(whole[1]):
        return whole[1]
    if any(word not in _CHARACTERS for word in _EXPANDED.findall(identifier)):
        return None
    return _EXPANDED.sub(lambda match: _CHARACTERS[match[1]], identifier)

"""YAML as the API server writes it: keys sorted, blocks, text of several lines as a literal, quotes only where they are needed.

What needs quotes is what a reader would take for something else; our own reader (`yaml_text`) decides that, since the library's
rules are those of another YAML. Called by `meta/codec.py`. Pure.
Source: sigs.k8s.io/yaml v1.6.0 (Marshal); go.yaml.in/yaml/v2 v2.4.3 encode.go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml

from aggserver.meta import yaml_text

__all__ = ["encode"]

# The C emitter is ten times as fast; wheels have it, a build without libyaml has not.
_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

# No number, boolean or null is written longer; longer text needs no second look.
_MAX_AMBIGUOUS = 40
# How text must begin to be one of them: y(es), n(o), t(rue), o(n, ff) and the like, digits, signs, `~`.
_SUSPICIOUS = frozenset("+-.0123456789~yYnNtTfFoO")


class _Dumper(_BASE):  # type: ignore[misc]
    """Writes values that appear twice twice: anchors are nothing that a client expects."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    if "\n" in text:
        style = "|"
    elif len(text) <= _MAX_AMBIGUOUS and text[:1] in _SUSPICIOUS and _is_ambiguous(text):
        style = '"'
    else:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


@lru_cache(maxsize=1024)
def _is_ambiguous(text: str) -> bool:
    try:
        return bool(yaml_text.decode(text.encode())[0] != text)
    except yaml_text.YAMLTextError:
        return True


def encode(value: Any) -> bytes:
    """A JSON value as one YAML document, with a line break at the end."""
    text: bytes = yaml.dump(value, Dumper=_Dumper, encoding="utf-8", allow_unicode=True, default_flow_style=False, sort_keys=True)
    return text

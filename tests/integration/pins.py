"""What is not alike: which cases differ between kube-apiserver and aggserver, why, and what aggserver answers there.

`different.yaml` is the table. A case that no longer differs has no place in it, and fails; so does one whose answer is another
than the table has. Then the failure shows the line that would be right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.integration.comparison import Seen, without_order

__all__ = ["DIFFERENT", "check", "digest"]

_TABLE = yaml.safe_load(Path(__file__).with_name("different.yaml").read_text())
# Upstream walks maps, which Go does in any order, on the way to the errors of these.
_UNORDERED = frozenset(_TABLE["unordered"])
# Name of a case -> why it differs, and the digests of our answers.
DIFFERENT: dict[str, tuple[str, list[str]]] = {
    name: (reason, pinned) for reason, cases in _TABLE["different"].items() for name, pinned in cases.items()
}
# Characters of a body that a digest shows as it is.
_SHOWN = 400


def check(name: str, upstream: Sequence[Seen], ours: Sequence[Seen]) -> None:
    """Both are alike, or differ as the table has it."""
    if name in DIFFERENT:
        reason, pinned = DIFFERENT[name]
        assert ours != upstream, f"no longer differs, though listed because {reason!r}"
        assert [digest(seen.status, seen.body) for seen in ours] == pinned
    elif name in _UNORDERED:
        assert list(map(without_order, ours)) == list(map(without_order, upstream))
    else:
        assert ours == upstream


def digest(status: int, body: Any) -> str:
    """A line for an answer: of a Status its reason and message, of other bodies as much as fits."""
    if isinstance(body, dict) and body.get("kind") == "Status":
        return f"{status} {body.get('reason') or body.get('status')}: {body.get('message')}"
    text = body.strip() if isinstance(body, str) else json.dumps(body, sort_keys=True, ensure_ascii=False)
    cut = f" ... {hashlib.sha256(text.encode()).hexdigest()[:16]}" if len(text) > _SHOWN else ""
    return f"{status} {text[:_SHOWN]}{cut}"

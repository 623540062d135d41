"""The catalog: what a kind is called elsewhere."""

from __future__ import annotations

import pytest

from aggserver.kinds.catalog import GROUPS, KINDS, BuiltInKind
from aggserver.scheme.types import lookup


def test_in_the_order_of_discovery() -> None:
    places = [(GROUPS.index(kind.group), kind.plural) for kind in KINDS]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type_name)
def test_has_a_type(kind: BuiltInKind) -> None:
    members = lookup(kind.type_name).members
    assert "metadata" in members
    assert ("status" in members) >= kind.has_status
    assert all(path.startswith("metadata.") or path in members for path in kind.counted)

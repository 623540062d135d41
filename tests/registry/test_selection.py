from __future__ import annotations

import pytest

from aggserver.meta.errors import StatusError
from aggserver.registry.selection import parse_resource_version, predicate
from aggserver.registry.stored import StoredObject
from tests.registry.world import selection


def test_unset() -> None:
    assert parse_resource_version("") == 0


def test_out_of_range() -> None:
    with pytest.raises(StatusError) as refused:
        parse_resource_version("18446744073709551616", listing=True)
    assert refused.value.message == (
        'invalid resource version: resourceVersion: Invalid value: "18446744073709551616": '
        'strconv.ParseUint: parsing "18446744073709551616": value out of range'
    )


def test_nothing_selected_costs_nothing() -> None:
    assert predicate(selection(), lambda obj: {}) is None


def test_names_decode_nothing() -> None:
    obj = StoredObject("/stable.example.com/crontabs/default/a", b"no json", 5)
    for fields, expected in (
        ("metadata.name=a", True),
        ("metadata.name=b", False),
        ("metadata.namespace=default,metadata.name!=b", True),
        ("metadata.namespace=other", False),
    ):
        selected = predicate(selection(fields=fields), lambda obj: {})
        assert selected is not None
        assert selected.matches(obj) is expected


def test_cluster_scoped_objects_have_no_namespace() -> None:
    selected = predicate(selection(fields="metadata.namespace="), lambda obj: {})
    assert selected is not None
    assert selected.matches(StoredObject("/stable.example.com/clocks/a", b"no json", 5))

"""Scale owners: from the managedFields of an object to those of its Scale, and back."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.merge.scale_owners import ScaleOwners
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject

V1, V2, V3, SCALE = "example.com/v1", "example.com/v2", "example.com/v3", "autoscaling/v1"
NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z"
# v2 has its replicas elsewhere, v3 has none.
OWNERS = ScaleOwners(V1, {V1: ".spec.replicas", V2: ".spec.inner.count", V3: None})
REPLICAS, INNER = {"f:spec": {"f:replicas": {}}}, {"f:spec": {"f:inner": {"f:count": {}}}}


def entry(name: str, fields: JSONObject, version: str = V1, operation: str = "Update", **more: str) -> JSONObject:
    made = {"manager": name, "operation": operation, "apiVersion": version, "time": NOON, "fieldsType": "FieldsV1"}
    return {**made, "fieldsV1": fields, **more}


def test_who_owns_the_replicas_owns_those_of_the_scale() -> None:
    both = {"f:metadata": {"f:labels": {"f:a": {}}}, **REPLICAS}
    entries = [
        entry("applier", both, operation="Apply"),
        entry("other", {"f:spec": {"f:image": {}}}),
        entry("two", INNER, V2),
        entry("elsewhere", REPLICAS, V2),
        entry("without", REPLICAS, V3),
        entry("unknown", REPLICAS, "example.com/v9"),
    ]
    assert OWNERS.to_scale(entries) == [entry("applier", REPLICAS, SCALE, "Apply"), entry("two", REPLICAS, SCALE)]


@pytest.mark.parametrize("entries", [None, []])
def test_nobody(entries: Any) -> None:
    assert OWNERS.to_scale(entries) == []
    assert OWNERS.to_parent(entries, entries) == []


def test_what_nobody_changed_stays() -> None:
    entries = [entry("applier", REPLICAS, operation="Apply"), entry("other", {"f:spec": {"f:image": {}}})]
    assert OWNERS.to_parent(entries, OWNERS.to_scale(entries)) == entries


def test_who_writes_the_scale_takes_the_replicas() -> None:
    more = {"f:spec": {"f:image": {}, "f:replicas": {}}}
    entries = [entry("one", more), entry("only", REPLICAS), entry("two", {**INNER, "f:status": {}}, V2)]
    taken = entry("scaler", REPLICAS, SCALE, subresource="scale", time=LATER)
    made = OWNERS.to_parent(entries, [taken])
    image, status = entry("one", {"f:spec": {"f:image": {}}}), entry("two", {"f:status": {}}, V2)
    # Without a time, and so before the others, as upstream writes it.
    written = {name: value for name, value in entry("scaler", REPLICAS, subresource="scale").items() if name != "time"}
    assert made == [written, image, status]


def test_an_update_of_the_scale_splits_the_entry_of_an_updater() -> None:
    """Who wrote the object by update is another manager in the Scale, of another version; so upstream writes two entries, of
    which the later counts at the next write.
    """
    kept = entry("one", {"f:spec": {"f:image": {}, "f:replicas": {}}})
    image = entry("one", {"f:spec": {"f:image": {}}})
    split = OWNERS.to_parent([kept], OWNERS.to_scale([kept]))
    assert split == [{name: value for name, value in entry("one", REPLICAS).items() if name != "time"}, image]
    assert OWNERS.to_scale(split) == []
    assert OWNERS.to_parent(split, []) == [image]


def test_versions_that_are_gone_own_nothing() -> None:
    assert OWNERS.to_parent([entry("one", {"f:spec": {}}, "example.com/v9")], []) == []


def test_a_manager_of_a_version_without_scale_keeps_what_it_has() -> None:
    kept = entry("one", REPLICAS, V3)
    assert OWNERS.to_parent([kept], []) == [kept]


def test_what_can_not_be_read() -> None:
    with pytest.raises(StatusError) as caught:
        OWNERS.to_scale([entry("one", {}, operation="Remove")])
    assert (caught.value.code, caught.value.message) == (500, "operation must be `Apply` or `Update`")

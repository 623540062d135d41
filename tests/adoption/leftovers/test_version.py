from __future__ import annotations

from typing import Any

import pytest

from aggserver.adoption.families import Family, families, group_versions, kept
from aggserver.adoption.leftovers.version import (
    LEFTOVER,
    MANAGER,
    VERSION,
    acting_webhooks,
    addition,
    fault,
    is_open,
    leftover,
    obstacle,
    removal,
    restored_managers,
)
from aggserver.adoption.records.record import Copied, Phase, Record, being_removed
from aggserver.meta import versions
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector

PREFIX = "/stable.example.com/crontabs/"
COPIED = Copied(100, 3, "digest", 50)


def crd(*names: str, **metadata: Any) -> JSONObject:
    """names: of its versions; the first is the storage version."""
    listed = [{"name": name, "served": True, "storage": number == 0} for number, name in enumerate(names or ("v1",))]
    conditions = [{"type": each, "status": "True"} for each in ("Established", "NamesAccepted")]
    return {
        "metadata": {"name": "crontabs.stable.example.com", "uid": "u", "resourceVersion": "7", **metadata},
        "spec": {
            "group": "stable.example.com",
            "names": {"plural": "crontabs", "kind": "CronTab"},
            "scope": "Namespaced",
            "versions": listed,
            "conversion": {"strategy": "None"},
        },
        "status": {"conditions": conditions},
    }


# --- the version ---


@pytest.mark.parametrize("other", ["v1", "v1alpha1", "v99beta9", "beta", "zeta", "z", "x-1"])
def test_no_client_prefers_the_version(other: str) -> None:
    assert sorted([VERSION, other], key=versions.sort_key) == [other, VERSION]


def test_the_version_comes_behind_the_others_and_goes_again() -> None:
    patch = addition(crd())
    assert patch[:2] == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
    ]
    added = patch[2]["value"]
    assert (patch[2]["op"], patch[2]["path"]) == ("add", "/spec/versions/-")
    assert (added["name"], added["served"], added["storage"]) == (VERSION, True, False)
    opened = crd("v1", VERSION, "v2")
    assert is_open(opened)
    assert removal(opened) == [*patch[:2], {"op": "remove", "path": "/spec/versions/1"}]


def test_a_conversion_webhook_is_not_asked_for_a_version_that_it_does_not_know() -> None:
    found = crd()
    assert obstacle(found) == ""
    found["spec"]["conversion"] = {"strategy": "Webhook"}
    assert "conversion webhook" in obstacle(found)
    del found["spec"]["conversion"]
    assert obstacle(found) == ""


MANAGERS = [{"manager": "helm", "fieldsV1": {"f:spec": {"f:versions": {}}}}, {"manager": "kube-apiserver"}]
OURS = {"manager": MANAGER, "fieldsV1": {"f:spec": {"f:versions": {}}}}


def test_the_versions_belong_to_whom_they_belonged_before() -> None:
    after = crd(managedFields=[MANAGERS[1], OURS])
    patch = restored_managers(after, crd(managedFields=MANAGERS))
    assert patch is not None
    assert patch[-1] == {"op": "add", "path": "/metadata/managedFields", "value": MANAGERS}
    assert restored_managers(crd(managedFields=MANAGERS), crd(managedFields=MANAGERS)) is None
    # After a crash nobody knows who owned them, but nobody is in the way any more.
    patch = restored_managers(after, after)
    assert patch is not None
    assert patch[-1]["value"] == [MANAGERS[1]]
    # An empty list would be taken for managers that are not told.
    assert restored_managers(crd(managedFields=[OURS]), crd()) is None


# --- nothing else knows of it ---


def test_it_is_left_out_of_what_is_kept_of_a_definition() -> None:
    opened = crd("v1", VERSION)
    for whole in (True, False):
        assert group_versions(kept(opened, whole=whole)) == [("stable.example.com", "v1")]
        assert [version["name"] for version in kept(opened, whole=whole)["spec"]["versions"]] == ["v1"]
    assert kept(crd(), whole=True)["spec"] == kept(opened, whole=True)["spec"]
    assert is_open(opened), "what was passed is not changed"


def test_a_family_says_which_definitions_have_it() -> None:
    record = Record(
        "crontabs.stable.example.com", {"crontabs.stable.example.com": "u"}, [], Phase.ADOPTED, shared=False, since=""
    )

    def family(found: JSONObject) -> Family:
        return families([kept(found, whole=True)], LabelSelector.parse(""), [record], {}, {})[0]

    closed, opened = family(crd()), family(crd("v1", VERSION))
    assert (closed.opened, opened.opened) == ([], ["crontabs.stable.example.com"])
    assert closed == opened, "that it comes and goes is no reason to try again what has failed"


# --- the objects ---


def item(**metadata: Any) -> JSONObject:
    return {"name": "a", "uid": "u-a", "resourceVersion": "90", **metadata}


def test_an_object_and_its_key() -> None:
    found = leftover(PREFIX, item(namespace="ns", finalizers=["x/y"]))
    assert (found.key, found.revision, found.finalizers) == (PREFIX + "ns/a", 90, ("x/y",))
    assert leftover(PREFIX, item()).key == PREFIX + "a"


FAULTS: dict[str, tuple[JSONObject, str]] = {
    "of the move": (item(), ""),
    "the newest of the move": (item(resourceVersion="100"), ""),
    "written later": (item(resourceVersion="101"), "was written by kube-apiserver at revision 101, after the move"),
    "without its finalizers": (item(resourceVersion="101", annotations={LEFTOVER: "90"}), ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str) -> None:
    metadata, why = FAULTS[name]
    assert fault(leftover(PREFIX, metadata), COPIED) == why


def test_once_it_has_begun_every_object_here_counts_as_newer() -> None:
    begun = being_removed(COPIED)
    assert (begun.is_being_removed, begun.own_revision, begun.count) == (True, 0, 3)
    assert not COPIED.is_being_removed


# --- who would be asked ---


def webhook(operations: list[str], side_effects: str = "NoneOnDryRun", **more: Any) -> JSONObject:
    rule = {"apiGroups": ["stable.example.com"], "apiVersions": ["v1"], "resources": ["crontabs"], "operations": operations}
    rule |= {key: more.pop(key) for key in ("apiGroups", "apiVersions", "resources") if key in more}
    return {"webhooks": [{"name": "hook", "rules": [rule], "sideEffects": side_effects, **more}]}


WEBHOOKS: dict[str, tuple[JSONObject, bool, bool]] = {
    # configuration, whether it stands in the way of a deletion, whether it does where objects have finalizers
    "deletions": (webhook(["DELETE"]), True, True),
    "updates": (webhook(["UPDATE"]), False, True),
    "creations": (webhook(["CREATE"]), False, False),
    "all operations": (webhook(["*"]), True, True),
    "without side effects": (webhook(["*"], "None"), False, False),
    "of exactly another version": (webhook(["*"], matchPolicy="Exact"), False, False),
    "of exactly all versions": (webhook(["*"], matchPolicy="Exact", apiVersions=["*"]), True, True),
    "of a version that is not there": (webhook(["*"], apiVersions=["v2"]), False, False),
    "of another group": (webhook(["*"], apiGroups=["apps"]), False, False),
    "of all groups and resources": (webhook(["*"], apiGroups=["*"], resources=["*"]), True, True),
    "of all resources with subresources": (webhook(["*"], resources=["*/*"]), True, True),
    "of a subresource": (webhook(["*"], resources=["crontabs/status"]), False, False),
    "of another resource": (webhook(["*"], resources=["shirts"]), False, False),
}


@pytest.mark.parametrize("name", WEBHOOKS)
def test_webhooks_that_would_act_on_it(name: str) -> None:
    configuration, deletes, updates = WEBHOOKS[name]
    assert acting_webhooks([configuration], crd(), updates=False) == (["hook"] if deletes else [])
    assert acting_webhooks([configuration], crd(), updates=True) == (["hook"] if updates else [])

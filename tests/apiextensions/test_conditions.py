"""Conditions: the status of definitions as kube-apiserver 1.36.3 gave it to these, and what becomes of it later."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.apiextensions import conditions
from aggserver.apiextensions.conditions import accept_names, initial_status, is_true, stored_versions, with_condition

NOW, LATER = 1_800_000_000.0, 1_800_000_060.0
TIME, LATER_TIME = "2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z"


def crd(plural: str = "crontabs", group: str = "stable.example.com", **names: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "singular": plural.removesuffix("s"), "kind": plural.title().removesuffix("s")} | names,
            "versions": [{"name": "v1", "storage": False}, {"name": "v2", "storage": True}],
        },
    }


def settled(definition: dict[str, Any], *others: dict[str, Any], now: float = NOW) -> dict[str, Any]:
    structure = conditions.non_structural(definition)
    return definition | {"status": conditions.conditions(definition, others, structure, now)}


def condition(type_: str, status: str, reason: str, message: str, time: str = TIME) -> dict[str, str]:
    return {"type": type_, "lastTransitionTime": time, "status": status, "reason": reason, "message": message}


ACCEPTED = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
ESTABLISHED = condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")


def test_new() -> None:
    assert initial_status(crd()) == {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v2"]}
    assert settled(crd(shortNames=["ct"]) | {"status": initial_status(crd())})["status"] == {
        "conditions": [ACCEPTED, ESTABLISHED],
        "acceptedNames": {
            "plural": "crontabs",
            "singular": "crontab",
            "shortNames": ["ct"],
            "kind": "Crontab",
            "listKind": "CrontabList",
        },
        "storedVersions": ["v2"],
    }


def with_schemas(*schemas: dict[str, Any], **spec: Any) -> dict[str, Any]:
    versions = [{"name": f"v{index}", "schema": {"openAPIV3Schema": schema}} for index, schema in enumerate(schemas, 1)]
    return crd() | {"spec": crd()["spec"] | {"versions": versions} | spec}


STRUCTURES: dict[str, tuple[dict[str, Any], Any]] = {
    "structural": (with_schemas({"type": "object"}), None),
    "without a schema": (crd(), None),
    "violations": (
        with_schemas({"type": "object"}, {"properties": {"a": {}}}, preserveUnknownFields=True),
        (
            "True",
            "Violations",
            "[spec.preserveUnknownFields: Invalid value: true: must be false, "
            "spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object "
            "fields, spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root]",
        ),
    ),
    "not even that": (
        with_schemas({"$ref": "#/a"}),
        (
            "Unknown",
            "StructuralError",
            "failed to check validation schema for version v1: OpenAPIV3Schema '$ref' is not supported",
        ),
    ),
}


@pytest.mark.parametrize(("definition", "structure"), STRUCTURES.values(), ids=STRUCTURES)
def test_non_structural(definition: dict[str, Any], structure: Any) -> None:
    assert conditions.non_structural(definition) == structure


def test_structure_is_mended() -> None:
    wrong = settled(with_schemas({"properties": {}}))
    assert is_true(wrong, "NonStructuralSchema")
    mended = settled(wrong | {"spec": with_schemas({"type": "object"})["spec"]})
    assert [each["type"] for each in mended["status"]["conditions"]] == ["NamesAccepted", "Established"]


def test_nothing_new() -> None:
    first = settled(crd())
    assert settled(first, now=LATER) == first


def test_conflict() -> None:
    first = settled(crd(shortNames=["ct"]))
    second = settled(crd("others", kind="Crontab", shortNames=["ct", "crontab", "o"], categories=["all"]), first)
    assert second["status"] == {
        "conditions": [
            condition("NamesAccepted", "False", "ListKindConflict", '"CrontabList" is already in use'),
            condition("Established", "False", "NotAccepted", "not all names are accepted"),
        ],
        "acceptedNames": {"plural": "others", "singular": "other", "kind": "", "categories": ["all"]},
        "storedVersions": ["v2"],
    }
    freed = settled(second, now=LATER)
    assert freed["status"]["conditions"] == [
        ACCEPTED | {"lastTransitionTime": LATER_TIME},
        ESTABLISHED | {"lastTransitionTime": LATER_TIME},
    ]
    assert freed["status"]["acceptedNames"]["kind"] == "Crontab"


CONFLICTS: dict[str, tuple[dict[str, Any], tuple[str, str] | None]] = {
    "none": (crd("others"), None),
    "another group": (crd("crontabs", "other.example.com"), None),
    "plural": (crd("ct", singular="x", kind="O"), ("PluralConflict", '"ct" is already in use')),
    "singular": (crd("others", singular="crontab"), ("SingularConflict", '"crontab" is already in use')),
    "a short name": (crd("others", shortNames=["o", "crontabs"]), ("ShortNamesConflict", '"crontabs" is already in use')),
    "short names": (
        crd("others", shortNames=["ct", "crontabs", "ct"]),
        ("ShortNamesConflict", '["ct" is already in use, "crontabs" is already in use]'),
    ),
    "kind": (crd("others", kind="Crontab", listKind="X"), ("KindConflict", '"Crontab" is already in use')),
    "a kind that is the list kind of another": (
        crd("others", kind="CrontabList"),
        ("KindConflict", '"CrontabList" is already in use'),
    ),
    "list kind": (crd("others", listKind="CrontabList"), ("ListKindConflict", '"CrontabList" is already in use')),
    "the last of several": (
        crd("others", singular="ct", kind="Crontab", listKind="X"),
        ("KindConflict", '"Crontab" is already in use'),
    ),
    "kinds and names of resources are apart": (crd("others", kind="ct"), None),
}


@pytest.mark.parametrize(("definition", "conflict"), CONFLICTS.values(), ids=CONFLICTS)
def test_conflicts(definition: dict[str, Any], conflict: tuple[str, str] | None) -> None:
    assert accept_names(definition, [settled(crd(shortNames=["ct"]))])[1] == conflict


def test_established_is_for_good_and_names_are_kept() -> None:
    first, second = settled(crd()), settled(crd("others", shortNames=["o"]))
    changed = second | {"spec": crd("others", kind="Crontab", shortNames=["crontab"])["spec"]}
    after = settled(changed, first, now=LATER)["status"]
    assert after["conditions"] == [
        condition("NamesAccepted", "False", "ListKindConflict", '"CrontabList" is already in use', LATER_TIME),
        ESTABLISHED,
    ]
    assert after["acceptedNames"] == second["status"]["acceptedNames"]


def test_another_reason_is_no_transition() -> None:
    first = settled(crd(shortNames=["ct"]))
    second = settled(crd("others", singular="ct"), first)
    third = settled(second | {"spec": crd("others", kind="Crontab", listKind="X")["spec"]}, first, now=LATER)
    assert third["status"]["conditions"][0] == condition("NamesAccepted", "False", "KindConflict", '"Crontab" is already in use')


def test_own_names_may_change_places() -> None:
    first = settled(crd(singular="a", shortNames=["b"]))
    swapped = settled(first | {"spec": crd(singular="b", shortNames=["a"])["spec"]})
    assert swapped["status"]["acceptedNames"]["singular"] == "b"
    assert is_true(swapped, "NamesAccepted")


def test_ca_bundle() -> None:
    webhook = {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "eA=="}}}
    broken = crd()
    broken["spec"]["conversion"] = webhook
    first = settled(broken)
    message = "The conversion webhook CABundle is invalid"
    assert first["status"]["conditions"][1] == condition("Established", "False", "InvalidCABundle", message)
    mended = settled(first | {"spec": crd()["spec"]}, now=LATER)
    assert is_true(mended, "Established")
    # What was established once is not taken back.
    assert is_true(settled(mended | {"spec": broken["spec"]}), "Established")


APPROVALS = {
    "missing": (
        {},
        "False",
        "MissingAnnotation",
        'protected groups must have approval annotation "api-approved.kubernetes.io", '
        "see https://github.com/kubernetes/enhancements/pull/1111",
    ),
    "approved": ({"api-approved.kubernetes.io": "https://a/b"}, "True", "ApprovedAnnotation", "approved in https://a/b"),
    "bypassed": (
        {"api-approved.kubernetes.io": "unapproved, x"},
        "False",
        "UnapprovedAnnotation",
        'not approved: "unapproved, x"',
    ),
    "neither": (
        {"api-approved.kubernetes.io": "yes"},
        "False",
        "InvalidAnnotation",
        'protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with '
        '"unapproved", see https://github.com/kubernetes/enhancements/pull/1111',
    ),
}


@pytest.mark.parametrize(("annotations", "status", "reason", "message"), APPROVALS.values(), ids=APPROVALS)
def test_approval(annotations: dict[str, str], status: str, reason: str, message: str) -> None:
    definition = crd(group="x.k8s.io")
    definition["metadata"]["annotations"] = annotations
    wanted = condition("KubernetesAPIApprovalPolicyConformant", status, reason, message)
    assert settled(definition)["status"]["conditions"] == [wanted, ACCEPTED, ESTABLISHED]


def test_terminating() -> None:
    definition = settled(crd())
    definition["metadata"]["deletionTimestamp"] = TIME
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    pending = condition("Terminating", "True", "InstanceDeletionPending", message)
    first = settled(definition)
    assert first["status"]["conditions"] == [ACCEPTED, ESTABLISHED, pending]
    told = first | {
        "status": with_condition(first["status"], "Terminating", "True", "InstanceDeletionInProgress", "...", LATER_TIME)
    }
    assert settled(told)["status"]["conditions"][2] == condition("Terminating", "True", "InstanceDeletionInProgress", "...")


def test_conditions_of_others_stay() -> None:
    definition = crd() | {"status": {"conditions": [condition("StorageMigrating", "True", "x", "y")], "observedGeneration": 3}}
    status = settled(definition)["status"]
    assert [each["type"] for each in status["conditions"]] == ["StorageMigrating", "NamesAccepted", "Established"]
    assert status["observedGeneration"] == 3


def test_stored_versions() -> None:
    definition = crd()
    assert stored_versions(definition) == ["v2"]
    assert stored_versions(definition | {"status": {"storedVersions": ["v1"]}}) == ["v1", "v2"]
    assert stored_versions(definition | {"status": {"storedVersions": ["v2", "v1"]}}) == ["v2", "v1"]

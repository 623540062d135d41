from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from aggserver.adoption.families import FINALIZER, Family, Wanted, families, group_versions, is_served, kept
from aggserver.adoption.records.record import Phase, Record
from aggserver.meta.selectors import LabelSelector

SELECTOR = LabelSelector.parse("adopt=yes")
LABELS = {"adopt": "yes"}


def crd(
    name: str,
    *versions: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    uid: str = "",
    deleted: bool = False,
    established: str = "True",
    accepted: str = "True",
    unserved: Sequence[str] = (),
    held: bool = False,
) -> dict[str, Any]:
    """A definition as the host has it; the first version is stored. Its labels match, if nothing else is said."""
    metadata: dict[str, Any] = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "labels": dict(LABELS if labels is None else labels),
        "annotations": dict(annotations or {}),
    }
    if held:
        metadata["finalizers"] = [FINALIZER]
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plural, _, group = name.partition(".")
    listed = [
        {"name": version, "served": version not in unserved, "storage": not index} for index, version in enumerate(versions)
    ]
    conditions = [{"type": "Established", "status": established}, {"type": "NamesAccepted", "status": accepted}]
    return {
        "metadata": metadata,
        "spec": {"group": group, "names": {"plural": plural}, "scope": "Namespaced", "versions": listed},
        "status": {"conditions": conditions},
    }


def record(phase: Phase, uids: Mapping[str, str], *versions: str, family: str = "") -> Record:
    return Record(
        family or min(uids), uids, [("x.io", version) for version in versions], phase, shared=False, since="2026-01-01T00:00:00Z"
    )


def of(crds: Sequence[dict[str, Any]], *records: Record, **more: Any) -> list[Family]:
    return families(
        crds,
        more.get("selector", SELECTOR),
        records,
        elsewhere=more.get("elsewhere", {}),
        refused=more.get("refused", {}),
        ours=more.get("ours", ()),
    )


def test_families_are_connected_by_served_group_versions() -> None:
    found = of(
        [
            crd("c.x.io", "v2"),
            crd("b.x.io", "v1", "v2"),
            crd("a.x.io", "v1"),
            crd("d.x.io", "v3", "v1", unserved=["v1"]),
            crd("a.y.io", "v1"),
            crd("other.z.io", "v1", labels={}),
        ]
    )
    assert [(family.name, family.definitions, family.group_versions) for family in found] == [
        ("a.x.io", ["a.x.io", "b.x.io", "c.x.io"], [("x.io", "v1"), ("x.io", "v2")]),
        ("a.y.io", ["a.y.io"], [("y.io", "v1")]),
        ("d.x.io", ["d.x.io"], [("x.io", "v3")]),
    ]
    assert all(family.wanted is Wanted.ADOPT and not family.obstacles for family in found)
    assert found[0].uids["b.x.io"] == "uid-b.x.io"


def test_the_empty_selector_matches_all() -> None:
    assert [family.name for family in of([crd("a.x.io", "v1", labels={})], selector=LabelSelector.parse(""))] == ["a.x.io"]


@pytest.mark.parametrize(
    ("crds", "more", "obstacle"),
    [
        pytest.param(
            [crd("a.x.io", "v1"), crd("b.x.io", "v1", labels={})],
            {},
            "b.x.io does not match the selector 'adopt=yes', and it is of the same family: they move together or not at all",
            id="a member without the label",
        ),
        pytest.param(
            [crd("a.x.io", "v1", annotations={"aggserver.io/adoption": "release"})],
            {},
            "a.x.io has the annotation aggserver.io/adoption: release",
            id="released by an annotation",
        ),
        pytest.param([crd("a.x.io", "v1", deleted=True)], {}, "a.x.io is being deleted", id="being deleted"),
        pytest.param(
            [crd("a.x.io", "v1", established="False")], {}, "a.x.io is not established in the host", id="not established"
        ),
        pytest.param(
            [crd("a.x.io", "v1", accepted="False")],
            {},
            "a.x.io has a name that another definition of its group has: see its condition NamesAccepted",
            id="a name conflict",
        ),
        pytest.param([crd("a.x.io", "v1", unserved=["v1"])], {}, "a.x.io serves no version", id="nothing served"),
        pytest.param(
            [crd("a.x.io", "v1")],
            {"refused": {"a.x.io": "spec.versions: Required value"}},
            "a.x.io can't be served here: spec.versions: Required value",
            id="can't be parsed",
        ),
        pytest.param(
            [crd("a.x.io", "v1")],
            {"elsewhere": {("x.io", "v1"): "served by the Service other/server"}},
            "APIService v1.x.io is left alone: it is served by the Service other/server",
            id="an APIService of somebody else",
        ),
    ],
)
def test_obstacles(crds: list[dict[str, Any]], more: dict[str, Any], obstacle: str) -> None:
    (family,) = of(crds, **more)
    assert (family.wanted, family.obstacles) == (Wanted.ADOPT, [obstacle])
    # The same in the middle of the move: a new obstacle ends it, a definition that is not wanted any more goes back.
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in crds}
    (family,) = of(crds, record(Phase.COPYING, uids, "v1"), **more)
    assert family.wanted is (
        Wanted.RELEASE if "label" in obstacle or "selector" in obstacle or "annotation" in obstacle else Wanted.ADOPT
    )
    assert family.obstacles == [obstacle]


ADOPTED = record(Phase.ADOPTED, {"a.x.io": "uid-a.x.io"}, "v1")


def test_an_adopted_family_is_kept() -> None:
    (family,) = of([crd("a.x.io", "v1")], ADOPTED)
    assert (family.name, family.wanted, family.obstacles) == ("a.x.io", Wanted.KEEP, [])


def test_a_new_version_of_an_adopted_definition_belongs_to_its_family() -> None:
    (family,) = of([crd("a.x.io", "v1", "v2")], ADOPTED)
    assert family.group_versions == [("x.io", "v1"), ("x.io", "v2")]
    assert family.wanted is Wanted.KEEP


@pytest.mark.parametrize(
    ("new", "more", "joins", "problem"),
    [
        pytest.param(crd("0.x.io", "v1"), {}, True, "", id="it joins, and the family keeps its name"),
        pytest.param(
            crd("0.x.io", "v1", labels={}),
            {},
            False,
            "0.x.io is served by nobody in x.io/v1, which is adopted: 0.x.io does not match the selector 'adopt=yes'",
            id="it is not selected",
        ),
        pytest.param(
            crd("0.x.io", "v1", "v2"),
            {},
            False,
            "0.x.io is served by nobody in x.io/v1, which is adopted: 0.x.io is served in x.io/v2 by the host; "
            "release the family and adopt it again to move it",
            id="it is served by the host, too",
        ),
        pytest.param(crd("0.x.io", "v1", established="False"), {}, False, "", id="it joins later"),
        pytest.param(
            crd("0.x.io", "v1"),
            {"refused": {"0.x.io": "why"}},
            False,
            "0.x.io can't be served here: why",
            id="it can't be served",
        ),
    ],
)
def test_a_definition_that_is_created_in_an_adopted_group_version(
    new: dict[str, Any], more: dict[str, Any], joins: bool, problem: str
) -> None:
    (family,) = of([new, crd("a.x.io", "v1")], ADOPTED, **more)
    assert family.name == "a.x.io"
    assert family.wanted is Wanted.KEEP
    assert family.definitions == (["0.x.io", "a.x.io"] if joins else ["a.x.io"])
    assert family.obstacles == ([problem] if problem else [])


def test_a_definition_that_connects_two_adopted_families_joins_the_first_and_both_go_back_together() -> None:
    other = record(Phase.ADOPTED, {"b.x.io": "uid-b.x.io"}, "v2")
    bridge = crd("z.x.io", "v1")
    bridge["spec"]["versions"].append({"name": "v2", "served": True, "storage": False})
    first, second = of([crd("a.x.io", "v1"), crd("b.x.io", "v2", labels={}), bridge], ADOPTED, other)
    assert (first.name, second.name) == ("a.x.io", "b.x.io")
    assert (first.wanted, second.wanted) == (Wanted.RELEASE, Wanted.RELEASE)


@pytest.mark.parametrize(
    ("changed", "wanted", "reason"),
    [
        pytest.param({"labels": {}}, Wanted.RELEASE, "a.x.io does not match the selector 'adopt=yes'", id="without the label"),
        pytest.param(
            {"annotations": {"aggserver.io/adoption": "release"}},
            Wanted.RELEASE,
            "a.x.io has the annotation aggserver.io/adoption: release",
            id="with the annotation",
        ),
        pytest.param({"annotations": {"aggserver.io/adoption": "other"}}, Wanted.KEEP, "", id="with another value"),
    ],
)
def test_release(changed: dict[str, Any], wanted: Wanted, reason: str) -> None:
    (family,) = of([crd("a.x.io", "v1", **changed)], ADOPTED)
    assert (family.wanted, family.reason) == (wanted, reason)


def test_what_the_command_asks_for() -> None:
    asked = {"aggserver.io/release-through-api": "true", "aggserver.io/cleanup": "2026-01-01T00:00:00Z"}
    (family,) = of([crd("a.x.io", "v1", annotations=asked)], ADOPTED)
    assert family.through_api
    assert family.cleanup == {"a.x.io": "2026-01-01T00:00:00Z"}


def test_a_deleted_definition_of_an_adopted_family() -> None:
    (family,) = of([crd("a.x.io", "v1", deleted=True)], ADOPTED)
    assert (family.wanted, family.deleted, family.obstacles) == (Wanted.KEEP, ["a.x.io"], [])


@pytest.mark.parametrize(
    ("crds", "problem"),
    [
        pytest.param(
            [],
            "a.x.io is gone from the host without its finalizer aggserver.io/adopted having been waited for; "
            "its objects are kept",
            id="gone",
        ),
        pytest.param(
            [crd("a.x.io", "v1", uid="another")],
            "a.x.io was deleted and created anew in the host; its objects here are of the one with uid uid-a.x.io: "
            "`aggserver adopt release --discard` deletes them",
            id="created anew",
        ),
    ],
)
def test_a_definition_that_went_without_us(crds: list[dict[str, Any]], problem: str) -> None:
    (family,) = of(crds, ADOPTED)
    assert (family.wanted, family.definitions, family.obstacles) == (Wanted.KEEP, [], [problem])


def test_problems_of_an_adopted_family() -> None:
    (family,) = of(
        [crd("a.x.io", "v1")], ADOPTED, refused={"a.x.io": "why"}, elsewhere={("x.io", "v1"): "served by the Service b/c"}
    )
    assert family.obstacles == [
        "a.x.io can't be served here as it is now: why",
        "APIService v1.x.io is served by the Service b/c",
    ]


def test_what_is_kept_of_a_definition() -> None:
    whole = crd("a.x.io", "v1", annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"})
    whole["metadata"]["managedFields"] = [{}]
    whole["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {}}
    assert kept(whole, whole=True)["spec"] == whole["spec"]
    slim = kept(whole, whole=False)
    assert slim["metadata"]["annotations"] == {"a": "b"}
    assert "managedFields" not in slim["metadata"]
    assert "schema" not in slim["spec"]["versions"][0]
    assert group_versions(slim) == [("x.io", "v1")]


def test_phases_in_which_definitions_are_served() -> None:
    served = {phase for phase in Phase if is_served(record(phase, {"a.x.io": "u"}, "v1"))}
    assert served == {Phase.SWITCHING, Phase.ADOPTED, Phase.GIVING_BACK, Phase.SWITCHING_BACK}


TWO = record(Phase.ADOPTED, {"a.x.io": "uid-a.x.io", "b.x.io": "uid-b.x.io"}, "v1")
DISCARD = {"aggserver.io/adoption": "discard"}


@pytest.mark.parametrize("phase", [Phase.ADOPTED, Phase.GIVING_BACK])
def test_a_release_waits_for_what_is_being_deleted(phase: Phase) -> None:
    """What is given back of it would stay in the cluster's etcd when the definition is gone."""
    kept = Wanted.KEEP if phase is Phase.ADOPTED else Wanted.ADOPT
    (family,) = of([crd("a.x.io", "v1", labels={}, deleted=True), crd("b.x.io", "v1", labels={})], TWO.at(phase, ""))
    problem = "a.x.io is being deleted, and what else there is goes back when that is done"
    assert (family.wanted, family.deleted, family.obstacles) == (kept, ["a.x.io"], [problem])
    left = replace(TWO.at(phase, ""), uids={"b.x.io": "uid-b.x.io"})
    (family,) = of([crd("b.x.io", "v1", labels={})], left)
    assert family.wanted is Wanted.RELEASE


@pytest.mark.parametrize(
    ("phase", "finalizers", "ours", "unheld", "is_lost"),
    [
        pytest.param(Phase.ADOPTED, (True, True), ["v1"], [], False, id="adopted"),
        pytest.param(Phase.ADOPTED, (True, False), ["v1"], ["b.x.io"], False, id="somebody has taken the finalizer off"),
        pytest.param(Phase.ADOPTED, (True, True), [], [], False, id="somebody has changed the APIService"),
        pytest.param(Phase.ADOPTED, (True, False), [], ["b.x.io"], True, id="given back from a backup, but for the end"),
        pytest.param(Phase.GIVING_BACK, (False, False), [], ["a.x.io", "b.x.io"], True, id="given back from a backup"),
        pytest.param(Phase.SWITCHING, (False, False), [], ["a.x.io", "b.x.io"], False, id="before clients wrote here"),
        pytest.param(Phase.COPYING, (False, False), [], [], False, id="not there yet"),
    ],
)
def test_an_adopted_definition_without_our_finalizer(
    phase: Phase, finalizers: tuple[bool, bool], ours: list[str], unheld: list[str], *, is_lost: bool
) -> None:
    crds = [crd(name, "v1", held=held) for name, held in zip(("a.x.io", "b.x.io"), finalizers, strict=True)]
    (family,) = of(crds, TWO.at(phase, ""), ours=[("x.io", version) for version in ours])
    assert (list(family.unheld), bool(family.lost)) == (unheld, is_lost)


@pytest.mark.parametrize(
    ("phase", "changed", "discard", "wanted"),
    [
        pytest.param(Phase.ADOPTED, {"annotations": DISCARD}, [], Wanted.RELEASE, id="of an adopted one it is a release"),
        pytest.param(Phase.ADOPTED, {"annotations": DISCARD, "uid": "2"}, ["a.x.io"], Wanted.KEEP, id="of one created anew"),
        pytest.param(Phase.ADOPTED, {"uid": "2"}, [], Wanted.KEEP, id="nobody has asked"),
        pytest.param(Phase.WAITING, {"annotations": DISCARD}, ["a.x.io"], Wanted.RELEASE, id="of one that was given back"),
    ],
)
def test_what_is_discarded(phase: Phase, changed: dict[str, Any], discard: list[str], wanted: Wanted) -> None:
    (family,) = of([crd("a.x.io", "v1", **changed)], ADOPTED.at(phase, ""))
    assert (list(family.discard), family.wanted) == (discard, wanted)


def test_a_name_conflict_in_an_adopted_group_version_is_told() -> None:
    (family,) = of([crd("0.x.io", "v1", established="False", accepted="False"), crd("a.x.io", "v1")], ADOPTED)
    assert family.obstacles == ["0.x.io has a name that another definition of its group has: see its condition NamesAccepted"]
    assert family.definitions == ["a.x.io"]

"""Families: which of the host's definitions move together, what is wanted of them, and what stands in the way. Pure.

An APIService stands for a whole group-version, so definitions that share a group-version move together or not at all. A family is
a set of definitions that are connected by served group-versions. Once a family has a record, the record gives it its name and
says which definitions have moved; a definition that is created later in one of its group-versions joins at once if it is selected
too, because the host leads the definition's clients here already.
Source: none; no other server does this. The conditions of definitions are upstream's: k8s.io/apiextensions-apiserver
pkg/apiserver/customresource_handler.go (ServeHTTP), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from aggserver.adoption.leftovers.version import VERSION, is_open
from aggserver.adoption.records.record import LED_HERE, SERVED, Phase, Record
from aggserver.apiextensions.conditions import is_true
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.selectors import LabelSelector

__all__ = [
    "ADOPTION",
    "ASKED",
    "CLEANUP",
    "DISCARD",
    "FINALIZER",
    "OPENED",
    "RELEASE",
    "THROUGH_API",
    "Family",
    "GroupVersion",
    "Wanted",
    "families",
    "group_versions",
    "is_served",
    "kept",
]

# On an adopted definition, so that its objects here are deleted before it goes.
FINALIZER = "aggserver.io/adopted"

# Annotations by which `aggserver adopt` asks for something.
ADOPTION = "aggserver.io/adoption"
RELEASE = "release"
DISCARD = "discard"  # as release; where the host serves the definition by itself, its objects here are deleted
THROUGH_API = "aggserver.io/release-through-api"  # "true": objects that were created here may get new uids
ASKED = "aggserver.io/release-asked"  # when the release was asked for, RFC 3339, so that asking again is a change
CLEANUP = "aggserver.io/cleanup"  # when the removal of leftovers was asked for, RFC 3339

# A member that `kept` adds to a definition that has the version of `leftovers/version.py` now.
OPENED = "leftovers"

GroupVersion = tuple[str, str]


class Wanted(StrEnum):
    """ADOPT: the family is to be moved here, if nothing stands in the way. KEEP: it is here. RELEASE: it is to go back."""

    ADOPT = "Adopt"
    KEEP = "Keep"
    RELEASE = "Release"


@dataclass(frozen=True, slots=True)
class Family:
    """What is known of a family beside its record.

    uids: of its definitions by name; of an adopted family those that are served here, with those that join. group_versions: all
    that they serve, sorted. obstacles: why it can't be adopted now; of an adopted family what is wrong with it, or with a
    definition that can't join. reason: why a release is wanted. through_api: the release may give objects new uids. asked: when a
    command last asked for the release, '' if none has. cleanup: when the removal of leftovers was asked for, by definition.
    deleted: its definitions that are being deleted in the host. opened: its definitions through which kube-apiserver serves
    leftovers now; not compared, since this changes without anything else being wanted.

    generations: of the definitions, by name, which grow with each change of a spec; not compared either. unheld: definitions of
    its record that have lost our finalizer. lost: why what is here must not be served any more; '' if it may. discard:
    definitions of its record that the host has by itself, and whose objects here are to be deleted.
    """

    name: str
    uids: Mapping[str, str]
    group_versions: Sequence[GroupVersion]
    wanted: Wanted
    obstacles: Sequence[str] = ()
    reason: str = ""
    through_api: bool = False
    asked: str = ""
    cleanup: Mapping[str, str] = field(default_factory=dict)
    deleted: Sequence[str] = ()
    opened: Sequence[str] = field(default=(), compare=False)
    generations: Mapping[str, int] = field(default_factory=dict, compare=False)
    unheld: Sequence[str] = ()
    lost: str = ""
    discard: Sequence[str] = ()

    @property
    def definitions(self) -> list[str]:
        return sorted(self.uids)


def is_served(record: Record) -> bool:
    """Whether the record's definitions are served here."""
    return record.phase in SERVED


def group_versions(crd: JSONMapping) -> list[GroupVersion]:
    """The group-versions that a definition serves."""
    spec = crd["spec"]
    return [(spec["group"], version["name"]) for version in spec["versions"] if version["served"]]


def kept(crd: JSONMapping, *, whole: bool) -> JSONMapping:
    """The members of a definition that are needed here. whole: with its schemas; otherwise only what decides about families.

    managedFields and kubectl's last applied configuration are as large as the definition itself, and not needed for anything.
    The version of the leftovers is left out, so that it is never adopted, served or moved.
    """
    metadata = {key: value for key, value in crd["metadata"].items() if key != "managedFields"}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if not key.startswith("kubectl.kubernetes.io/")}
    # Lists of custom resources don't say the kind of their items.
    slim: JSONObject = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
    slim |= {"spec": crd["spec"], "status": crd.get("status") or {}}
    if is_open(crd):
        versions = [version for version in crd["spec"]["versions"] if version["name"] != VERSION]
        slim |= {"spec": {**crd["spec"], "versions": versions}, OPENED: True}
    if not whole:
        versions = [{key: each[key] for key in ("name", "served", "storage")} for each in slim["spec"]["versions"]]
        slim["spec"] = {**{key: crd["spec"][key] for key in ("group", "names", "scope")}, "versions": versions}
    return slim


def families(
    crds: Iterable[JSONMapping],
    selector: LabelSelector,
    records: Iterable[Record],
    elsewhere: Mapping[GroupVersion, str],
    refused: Mapping[str, str],
    ours: Collection[GroupVersion] = (),
) -> list[Family]:
    """All families that are to be adopted or have a record, sorted by name.

    crds: the host's definitions, at least what `kept` keeps. elsewhere: the group-versions whose APIService is neither the host's
    nor this server's, with words that complete "it is ...". refused: the definitions that this server can't serve, and why. ours:
    the group-versions whose APIService leads here.
    """
    by_name = {crd["metadata"]["name"]: crd for crd in sorted(crds, key=lambda crd: str(crd["metadata"]["name"]))}
    facts = _Facts(by_name, selector, elsewhere, refused, ours)
    by_family = {record.family: record for record in sorted(records, key=lambda record: record.family)}
    found: list[Family] = []
    for names, recorded in _components(by_name, by_family):
        if recorded:
            found += _with_records(facts, names, [by_family[family] for family in recorded])
        elif any(map(facts.is_selected, names)):
            found.append(_new(facts, names))
    return sorted(found, key=lambda family: family.name)


@dataclass(frozen=True, slots=True)
class _Facts:
    """The inputs of `families`, with questions about one definition by name."""

    crds: Mapping[str, JSONMapping]
    selector: LabelSelector
    elsewhere: Mapping[GroupVersion, str]
    refused: Mapping[str, str]
    ours: Collection[GroupVersion]

    def is_selected(self, name: str) -> bool:
        return self.selector.matches(self.crds[name]["metadata"].get("labels") or {})

    def annotation(self, name: str, key: str) -> str:
        return str((self.crds[name]["metadata"].get("annotations") or {}).get(key, ""))

    def uid(self, name: str) -> str:
        return str(self.crds[name]["metadata"]["uid"])

    def is_deleted(self, name: str) -> bool:
        return "deletionTimestamp" in self.crds[name]["metadata"]

    def is_held(self, name: str) -> bool:
        return FINALIZER in (self.crds[name]["metadata"].get("finalizers") or ())

    def generations(self, names: Iterable[str]) -> dict[str, int]:
        return {name: int(self.crds[name]["metadata"].get("generation", 0)) for name in names}

    def has_conflict(self, name: str) -> bool:
        conditions = (self.crds[name].get("status") or {}).get("conditions") or ()
        return any(each["type"] == "NamesAccepted" and each["status"] == "False" for each in conditions)

    def group_versions(self, names: Iterable[str]) -> list[GroupVersion]:
        return sorted({each for name in names for each in group_versions(self.crds[name])})

    def why_release(self, name: str) -> str:
        """Why a definition is not to be adopted; '' if it is to be adopted."""
        if not self.is_selected(name):
            return f"{name} does not match the selector {str(self.selector)!r}"
        asked = self.annotation(name, ADOPTION)
        return f"{name} has the annotation {ADOPTION}: {asked}" if asked in (RELEASE, DISCARD) else ""

    def trouble(self, name: str) -> str:
        """Why the definition could not be served here; '' if it can."""
        crd = self.crds[name]
        if self.is_deleted(name):
            return f"{name} is being deleted"
        if self.has_conflict(name):
            return f"{name} has a name that another definition of its group has: see its condition NamesAccepted"
        if not is_true(crd, "Established"):
            return f"{name} is not established in the host"
        if name in self.refused:
            return f"{name} can't be served here: {self.refused[name]}"
        return "" if group_versions(crd) else f"{name} serves no version"

    def own(self, record: Record) -> list[str]:
        """The record's definitions that the host still has, sorted."""
        return sorted(name for name, uid in record.uids.items() if name in self.crds and self.uid(name) == uid)

    def asked(self, names: Iterable[str]) -> tuple[bool, str, dict[str, str]]:
        """The members through_api, asked and cleanup of a `Family` of these definitions."""
        names = list(names)
        cleanup = {name: asked for name in names if (asked := self.annotation(name, CLEANUP))}
        through_api = any(self.annotation(name, THROUGH_API) == "true" for name in names)
        return through_api, max((self.annotation(name, ASKED) for name in names), default=""), cleanup


def _new(facts: _Facts, names: Sequence[str]) -> Family:
    """A family without a record, of which at least one definition is selected."""
    through_api, asked, cleanup = facts.asked(names)
    return Family(
        name=names[0],
        uids={name: facts.uid(name) for name in names},
        group_versions=facts.group_versions(names),
        wanted=Wanted.ADOPT,
        obstacles=_obstacles(facts, names),
        through_api=through_api,
        asked=asked,
        cleanup=cleanup,
        deleted=list(filter(facts.is_deleted, names)),
        generations=facts.generations(names),
    )


def _obstacles(facts: _Facts, names: Sequence[str]) -> list[str]:
    found = []
    for name in names:
        why = facts.why_release(name)
        if why:
            found.append(f"{why}, and it is of the same family: they move together or not at all" if len(names) > 1 else why)
        if trouble := facts.trouble(name):
            found.append(trouble)
    for group, version in facts.group_versions(names):
        if (group, version) in facts.elsewhere:
            found.append(f"APIService {version}.{group} is left alone: it is {facts.elsewhere[group, version]}")
    return found


def _with_records(facts: _Facts, names: Sequence[str], records: Sequence[Record]) -> list[Family]:
    """The families of one component: as many as it has records, usually one. New definitions belong to the first."""
    # A definition that joins connects the group-versions of its records, so that one can't go back alone.
    asked = [why for record in records for name in facts.own(record) if (why := facts.why_release(name))]
    known = {name for record in records for name in record.uids}
    found = []
    for index, record in enumerate(records):
        new = [name for name in names if name not in known] if index == 0 else []
        found.append(_recorded(facts, record, new, asked))
    return found


def _recorded(facts: _Facts, record: Record, new: Sequence[str], asked: Sequence[str]) -> Family:
    own = facts.own(record)
    deleted = list(filter(facts.is_deleted, own))
    unheld = [name for name in own if not facts.is_held(name) and name not in deleted]
    joining: list[str] = []
    problems: list[str] = []
    if record.phase is Phase.WAITING:
        pass  # the host has its definitions by itself
    elif record.phase in LED_HERE or (record.phase is Phase.SWITCHING_BACK):
        joining, problems = _joining(facts, record, new)
        problems = [*_gone(facts, record), *problems, *_strangers(facts, record, own)]
    else:
        joining, problems = list(new), _obstacles(facts, sorted((*own, *new)))
    if deleted and asked and record.phase in LED_HERE:
        # The host deletes its objects of them, so none can be given back there. First their objects here are deleted.
        problems.append(f"{', '.join(deleted)} is being deleted, and what else there is goes back when that is done")
        asked = []
    # Before the switch, an unselected definition is an obstacle if it is not in the record, and ends the move if it is.
    wanted = Wanted.RELEASE if asked else Wanted.KEEP if record.phase is Phase.ADOPTED else Wanted.ADOPT
    members = sorted((*own, *joining))
    through_api, asked_at, cleanup = facts.asked(members)
    return Family(
        name=record.family,
        uids={name: facts.uid(name) for name in members},
        group_versions=facts.group_versions(members),
        wanted=wanted,
        obstacles=problems,
        reason="; ".join(asked),
        through_api=through_api or record.through_api,
        asked=asked_at,
        cleanup=cleanup,
        deleted=list(filter(facts.is_deleted, members)),
        opened=[name for name in own if facts.crds[name].get(OPENED)],
        generations=facts.generations(members),
        unheld=unheld if record.phase in (*LED_HERE, Phase.SWITCHING, Phase.WAITING) else (),
        lost=_lost(facts, record, unheld),
        discard=_discard(facts, record, own),
    )


def _lost(facts: _Facts, record: Record, unheld: Sequence[str]) -> str:
    """Why the objects of an adopted family here are out of date, and must not be served; '' if they are current.

    They are out of date after a release from a backup, if the store that was thought to be lost is still there. It shows by both
    the finalizers and the APIServices being gone: somebody may have removed only one of the two by mistake.
    """
    if record.phase not in LED_HERE or record.shared or not unheld or any(each in facts.ours for each in record.group_versions):
        return ""
    return (
        f"{', '.join(unheld)} went back to the cluster without this server: no APIService leads here, and the finalizer "
        f"{FINALIZER} is gone, as after a release from a backup. The cluster's objects are newer than what is here, which is "
        "kept and not served; `aggserver adopt release --discard` deletes it"
    )


def _discard(facts: _Facts, record: Record, own: Sequence[str]) -> list[str]:
    asked = [name for name in record.uids if name in facts.crds and facts.annotation(name, ADOPTION) == DISCARD]
    return sorted(name for name in asked if name not in own or record.phase is Phase.WAITING)


def _joining(facts: _Facts, record: Record, new: Sequence[str]) -> tuple[list[str], list[str]]:
    """The definitions that join an adopted family at once, and why others can't."""
    joining, problems = [], []
    adopted = set(record.group_versions)
    for name in new:
        served = group_versions(facts.crds[name])
        here = ", ".join(f"{group}/{version}" for group, version in served if (group, version) in adopted)
        if not here:
            continue  # it shares only a group-version that the family serves since the move, and that is not switched yet
        others = [f"{group}/{version}" for group, version in served if (group, version) not in adopted]
        why = facts.why_release(name)
        if not why and others:
            # Clients may reach its objects in the host through the other version, so they can't be here.
            why = f"{name} is served in {', '.join(others)} by the host; release the family and adopt it again to move it"
        if why:
            problems.append(f"{name} is served by nobody in {here}, which is adopted: {why}")
        elif not facts.trouble(name):
            joining.append(name)
        elif name in facts.refused or facts.has_conflict(name):
            problems.append(facts.trouble(name))
    return joining, problems


def _gone(facts: _Facts, record: Record) -> list[str]:
    """The problems of definitions that the host has no more, although our finalizer was not taken off here.

    Their objects are kept: the host's etcd may have been restored from a backup that is older than the definition.
    """
    problems = []
    for name, uid in sorted(record.uids.items()):
        if name not in facts.crds:
            problems.append(
                f"{name} is gone from the host without its finalizer {FINALIZER} having been waited for; its objects are kept"
            )
        elif facts.uid(name) != uid:
            problems.append(
                f"{name} was deleted and created anew in the host; its objects here are of the one with uid {uid}: "
                "`aggserver adopt release --discard` deletes them"
            )
    return problems


def _strangers(facts: _Facts, record: Record, own: Sequence[str]) -> list[str]:
    """The problems of an adopted family: definitions that can't be served, APIServices that are not ours."""
    problems = [f"{name} can't be served here as it is now: {facts.refused[name]}" for name in own if name in facts.refused]
    for group, version in sorted({*record.group_versions, *facts.group_versions(own)}):
        if (group, version) in facts.elsewhere:
            problems.append(f"APIService {version}.{group} is {facts.elsewhere[group, version]}")
    return problems


def _components(crds: Mapping[str, JSONMapping], records: Mapping[str, Record]) -> list[tuple[list[str], list[str]]]:
    """(definitions, families of records) that are connected by group-versions; both sorted."""
    leaders: dict[tuple[str, ...], tuple[str, ...]] = {}

    def leader(node: tuple[str, ...]) -> tuple[str, ...]:
        while leaders.setdefault(node, node) != node:
            leaders[node] = leaders[leaders[node]]
            node = leaders[node]
        return node

    for name, crd in crds.items():
        leader(("definition", name))
        for group, version in group_versions(crd):
            leaders[leader(("served", group, version))] = leader(("definition", name))
    for family, record in records.items():
        leader(("record", family))
        nodes: list[tuple[str, ...]] = [("definition", name) for name in record.uids if name in crds]
        nodes += [("served", group, version) for group, version in record.group_versions]
        for node in nodes:
            leaders[leader(node)] = leader(("record", family))
    found: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
    for name in crds:
        found.setdefault(leader(("definition", name)), ([], []))[0].append(name)
    for family in records:
        found.setdefault(leader(("record", family)), ([], []))[1].append(family)
    return list(found.values())

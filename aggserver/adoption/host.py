"""Host: follows the definitions and APIServices of the host cluster, and sets this server's finalizer on adopted definitions.

kube-apiserver goes on deciding about definitions: a definition is served here with the names that it has accepted. Of the
definitions that are not selected, only what decides about families is kept in memory: clusters have hundreds, with schemas of
megabytes. A definition is parsed when its content has changed; one that can't be served any more is served as it was before.

After a restart, the copies of definitions in our store take the place of the host's until the host answers.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go, v0.36.3 (names are the accepted ones).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aggserver.adoption.families import FINALIZER, Family, GroupVersion, families, group_versions, kept
from aggserver.adoption.records.record import Record
from aggserver.adoption.switch.api_services import OurService, Owner, name_of, owner
from aggserver.adoption.switch.switching import DEFINITIONS, PASSING_CATEGORY
from aggserver.apiextensions.api_service import API_SERVICES
from aggserver.apiextensions.conversion_annotation import rules_text
from aggserver.apiextensions.definition import Definition, DefinitionError, parse, with_structure
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.reflector import Reflector
from aggserver.errors import AggserverError
from aggserver.meta import codec
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.selectors import LabelSelector

__all__ = ["Host", "HostError"]

log = logging.getLogger("aggserver.adoption")

# Definitions in one answer. One has 1.5 MiB at most.
PAGE = 50
# The first cell of a row is the object's name.
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Bytes of JSON: a larger spec is parsed in a thread.
LARGE = 32 * 1024
# How often a change of the finalizer is tried when somebody else has changed the definition meanwhile.
ATTEMPTS = 5

GRANT = (
    "grant get, list, watch and patch on customresourcedefinitions.apiextensions.k8s.io, and get, list and watch on "
    "apiservices.apiregistration.k8s.io to this server's service account"
)


class HostError(AggserverError):
    """The host does not have a definition, or refuses a change of it. The text says which and why."""


class _Parsed(NamedTuple):
    """The result of parsing one definition.

    uid, version: of the definition that was parsed last; version is its resourceVersion. content: the digest of what was parsed.
    definition: the last one with this uid that could be served. why: the content can't be served; '' if it can.
    """

    uid: str
    version: str
    content: bytes
    definition: Definition | None
    why: str


class Host:
    """Follows the host's definitions and APIServices.

    target: what an APIService of this server looks like. records: returns the present records of the journal.

    on_change: called on the event loop after each change of what the host has, and must not raise.
    """

    def __init__(
        self,
        cluster: Cluster,
        selector: LabelSelector,
        target: OurService,
        records: Callable[[], Iterable[Record]],
        on_change: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._selector = selector
        self._target = target
        self._records = records
        self._on_change = on_change
        self._crds: Mapping[str, JSONObject] | None = None
        self._services: Mapping[str, JSONObject] | None = None
        self._kept: dict[str, JSONObject] = {}
        self._parsed: dict[str, _Parsed] = {}
        self._changed = asyncio.Event()
        self._problems: dict[str, str] = {}

    async def restore(self, crds: Mapping[str, JSONObject]) -> None:
        """Use these copies of definitions in place of the host's until the host answers."""
        self._kept = dict(crds)
        await self._parse(self._kept)

    async def run(self) -> None:
        """Follow the host until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for path, on_state, keep, size, what in (
                (DEFINITIONS, self._on_crds, self._keep, PAGE, "CustomResourceDefinitions"),
                (API_SERVICES, self._on_services, _without_managers, 0, "APIServices"),
            ):
                reflector = Reflector(self._cluster, path, {}, on_state, self._reporter(what), keep=keep, page_size=size)
                tasks.create_task(reflector.run())
            tasks.create_task(self._follow())

    def trouble(self) -> str:
        """Why the host's definitions are not known; '' if they are."""
        if self._crds is None or self._services is None:
            return "; ".join(self._problems.values()) or "the host's definitions and APIServices have not been read yet"
        return ""

    def families(self) -> list[Family]:
        """The families by the host's last known state. Empty before the host was read."""
        if self._crds is None or self._services is None:
            return []
        return self._families(self._crds, self._services)

    async def ask(self, groups: Collection[str]) -> list[Family]:
        """The families by the host's present state of these groups, and the last known state of the others.

        Raises ClusterError and Unreachable. Clients wait meanwhile, so not all definitions are listed: with hundreds that takes
        kube-apiserver seconds. It lists their names at once, and the definitions of a group are few.
        """
        seen = [(name, crd) for name, crd in (self._crds or {}).items() if crd["spec"]["group"] not in groups]
        table = await self._cluster.request("GET", DEFINITIONS, query={"includeObject": "None"}, timeout=30.0, accept=TABLE)
        names = [name for row in table["rows"] or () if (name := str(row["cells"][0])).partition(".")[2] in groups]
        asked = await asyncio.gather(*(self._get(DEFINITIONS, name) for name in names))
        crds = dict([*seen, *((crd["metadata"]["name"], self._keep(crd)) for crd in asked if crd is not None)])
        await self._parse(crds)
        others = {name: each for name, each in (self._services or {}).items() if each["spec"].get("group") not in groups}
        served = {each for crd in asked if crd is not None for each in group_versions(crd)}
        found = await asyncio.gather(*(self._get(API_SERVICES, name_of(each)) for each in sorted(served)))
        return self._families(crds, {**others, **{each["metadata"]["name"]: each for each in found if each is not None}})

    def crd(self, name: str) -> JSONObject | None:
        """The last known state of a definition, or its copy from our store until the host was read."""
        return (self._crds if self._crds is not None else self._kept).get(name)

    def definition(self, name: str, uid: str) -> Definition | None:
        """The last state of the definition with that uid that can be served; None if none is known. Also after its deletion."""
        parsed = self._parsed.get(name)
        return parsed.definition if parsed is not None and parsed.uid == uid else None

    def is_current(self, name: str) -> bool:
        """Whether what `crd` returns of a definition can be served, and so is what `definition` returns."""
        parsed = self._parsed.get(name)
        return parsed is not None and not parsed.why

    def taken(self, group: str) -> set[str]:
        """The versions of a group whose APIServices lead here."""
        specs = [item["spec"] for item in (self._services or {}).values() if owner(item, self._target)[0] is Owner.OURS]
        return {spec["version"] for spec in specs if spec["group"] == group}

    def serves(self, group_version: GroupVersion) -> bool:
        """Whether the host has a definition that serves it, as far as is known."""
        return self._crds is None or any(group_version in group_versions(crd) for crd in self._crds.values())

    async def has(self, name: str, uid: str) -> bool:
        """Whether the host has that definition now, and is not deleting it. Raises ClusterError and Unreachable."""
        crd = await self._get(DEFINITIONS, name)
        return crd is not None and crd["metadata"]["uid"] == uid and "deletionTimestamp" not in crd["metadata"]

    async def add_finalizer(self, name: str) -> None:
        """Put our finalizer on a definition, unless it is there. Raises HostError, ClusterError and Unreachable."""
        if not await self._set_finalizer(name, "", there=True):
            raise HostError(f"{name} is not in the host any more")

    async def remove_finalizer(self, name: str, uid: str) -> None:
        """Take our finalizer off the definition with that uid, if it is there. Raises as `add_finalizer` does."""
        await self._set_finalizer(name, uid, there=False)

    # --- what is followed ---

    def _keep(self, crd: JSONObject) -> JSONObject:
        labels, name = crd["metadata"].get("labels") or {}, crd["metadata"]["name"]
        whole = self._selector.matches(labels) or any(name in record.uids for record in self._records())
        return dict(kept(crd, whole=whole))

    def _on_crds(self, objects: Mapping[str, JSONObject], _: AbstractSet[str]) -> None:
        self._crds = objects
        self._changed.set()

    def _on_services(self, objects: Mapping[str, JSONObject], _: AbstractSet[str]) -> None:
        self._services = objects
        self._changed.set()

    def _reporter(self, what: str) -> Callable[[ClusterError | Unreachable | None], None]:
        def report(error: ClusterError | Unreachable | None) -> None:
            if error is None:
                self._problems.pop(what, None)
                return
            grant = f"; {GRANT}" if isinstance(error, ClusterError) and error.code == 403 else ""
            problem = f"{what} of the host can't be read: {error}{grant}"
            if self._problems.get(what) != problem:
                self._problems[what] = problem
                if isinstance(error, Unreachable):
                    return  # logged once for all watches, see `cluster/outage.py`
                log.warning("%s", problem)

        return report

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._crds is not None:
                await self._parse(dict(self._crds))
            self._on_change()

    async def _get(self, collection: str, name: str) -> JSONObject | None:
        return await find(self._cluster, f"{collection}/{name}")

    def _families(self, crds: Mapping[str, JSONObject], services: Mapping[str, JSONObject]) -> list[Family]:
        elsewhere: dict[GroupVersion, str] = {}
        ours: set[GroupVersion] = set()
        for item in services.values():
            whose, words = owner(item, self._target)
            group_version = item["spec"].get("group", ""), item["spec"]["version"]
            if whose is Owner.OTHER:
                elsewhere[group_version] = words
            elif whose is Owner.OURS:
                ours.add(group_version)
        refused = {name: parsed.why for name, parsed in self._parsed.items() if parsed.why and name in crds}
        return families(crds.values(), self._selector, self._records(), elsewhere, refused, ours)

    # --- definitions ---

    async def _parse(self, crds: Mapping[str, JSONObject]) -> None:
        """Parse the definitions that are whole and have changed."""
        recorded = {name for record in self._records() for name in record.uids}
        for name in self._parsed.keys() - crds.keys() - recorded:
            del self._parsed[name]
        for name, crd in crds.items():
            if not _is_whole(crd):
                continue
            before, uid, version = self._parsed.get(name), crd["metadata"]["uid"], crd["metadata"].get("resourceVersion", "")
            if before is not None and (before.uid, before.version) == (uid, version):
                continue
            content = _content(crd)
            if before is not None and (before.uid, before.content) == (uid, content):
                self._parsed[name] = before._replace(version=version)
                continue
            last = before.definition if before is not None and before.uid == uid else None
            try:
                large = len(codec.encode_json(crd["spec"])) > LARGE
                definition = await asyncio.to_thread(_definition, crd) if large else _definition(crd)
            except DefinitionError as error:
                log.error("definition %s can't be served: %s", name, error)
                self._parsed[name] = _Parsed(uid, version, content, last, str(error))
            else:
                self._parsed[name] = _Parsed(uid, version, content, definition, "")
            await asyncio.sleep(0)

    # --- the finalizer ---

    async def _set_finalizer(self, name: str, uid: str, *, there: bool) -> bool:
        """Put our finalizer on (there) or take it off. Returns False if there is no such definition. uid: '' for any."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                crd = await self._cluster.request("GET", f"{DEFINITIONS}/{name}")
                metadata = crd["metadata"]
                if uid and metadata["uid"] != uid:
                    return False
                patch = _finalizer_patch(metadata, there=there)
                if patch is None:
                    return True
                if there and "deletionTimestamp" in metadata:
                    raise HostError(f"{name} is being deleted")
                await self._cluster.request("PATCH", f"{DEFINITIONS}/{name}", query={"fieldManager": "aggserver"}, body=patch)
            except ClusterError as error:
                if error.code == 404:
                    return False
                # 409, or 422 of a test that failed: somebody has changed the definition since it was read.
                if error.code not in (409, 422) or attempt == ATTEMPTS:
                    what = "put on" if there else "taken off"
                    grant = f"; {GRANT}" if error.code == 403 and "webhook" not in error.message else ""
                    raise HostError(f"the finalizer {FINALIZER} can't be {what} {name}: {error}{grant}") from error
            else:
                return True
        raise AssertionError("the last attempt returns or raises")


def _finalizer_patch(metadata: JSONMapping, *, there: bool) -> list[JSONObject] | None:
    """The JSON Patch that puts our finalizer on, or takes it off; None if that is done already.

    It tests the resourceVersion, so that nobody's change is lost, and the uid, so that it is the same definition.
    """
    finalizers = list(metadata.get("finalizers") or ())
    if (FINALIZER in finalizers) == there:
        return None
    changed = [*finalizers, FINALIZER] if there else [each for each in finalizers if each != FINALIZER]
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/metadata/finalizers", "value": changed},
    ]


def _definition(crd: JSONObject) -> Definition:
    """Parse a definition with the names that the host has accepted. Raises DefinitionError."""
    names = _accepted_names(crd)
    definition = parse({**crd, "spec": {**crd["spec"], "names": names}} if names.get("plural") else crd)
    conditions = (crd.get("status") or {}).get("conditions") or ()
    has_others = any(each.get("type") == "NonStructuralSchema" and each.get("status") == "True" for each in conditions)
    return with_structure(definition) if has_others else definition


def _accepted_names(crd: JSONMapping) -> JSONObject:
    """The accepted names, without the category that is added for a moment to end the host's watches."""
    names: JSONObject = dict((crd.get("status") or {}).get("acceptedNames") or {})
    if PASSING_CATEGORY in (names.get("categories") or ()):
        categories = [each for each in names.pop("categories") if each != PASSING_CATEGORY]
        names |= {"categories": categories} if categories else {}
    return names


def _content(crd: JSONObject) -> bytes:
    """A digest of all that `_definition` reads."""
    status = (crd.get("status") or {}).get("conditions") or ()
    conditions = [each for each in status if each.get("type") == "NonStructuralSchema"]
    return hashlib.sha256(codec.encode_json([crd["spec"], rules_text(crd), _accepted_names(crd), conditions])).digest()


def _is_whole(crd: JSONMapping) -> bool:
    """Whether the definition is whole, unlike what `kept` leaves. kube-apiserver gives every definition a conversion."""
    return "conversion" in crd["spec"]


def _without_managers(item: JSONObject) -> JSONObject:
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}

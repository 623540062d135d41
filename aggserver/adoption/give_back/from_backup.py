"""Gives adopted definitions back to the host by a backup of our store, when the server and its volume are lost.

The backup has the records of the moves and all objects. With the host's etcd, the objects are written there before the
group-versions become the host's own again; through its API, after that. A definition without our finalizer was given back already
and is left alone: the host may have newer objects. The guard, which refuses the writes of clients, is removed last, so that an
interrupted release can be repeated. While the server still answers, nothing is done, since clients write to it.
Source: none; the records are those of `records/record.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from aggserver.admission.cluster_sources import GUARD_LABEL
from aggserver.adoption.families import FINALIZER
from aggserver.adoption.give_back.through_api import GiveBackThroughAPI
from aggserver.adoption.give_back.to_etcd import RAISED_AT_ONCE, GiveBackToStore, raising
from aggserver.adoption.leftovers.through_api import close
from aggserver.adoption.records.journal import RECORDS
from aggserver.adoption.records.record import LED_HERE, CantGiveBack, GiveBack, Record
from aggserver.adoption.records.record import decode as record_of
from aggserver.adoption.switch.api_services import deletion, name_of
from aggserver.adoption.switch.guard import CONFIGURATIONS, exempting, own_name
from aggserver.adoption.switch.switching import DEFINITIONS
from aggserver.apiextensions.api_service import ADOPTION, API_SERVICES, MANAGED_BY_LABEL
from aggserver.apiextensions.conditions import is_true
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.storage import sqlite_maintenance
from aggserver.storage.interface import Storage, StorageError, Unavailable
from aggserver.storage.records import DamagedRecord, decode
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME

__all__ = ["opened_backup", "records", "release_from_backup", "without_resources"]

# Revisions added to the backup's: the server may have gone on after it, and the host must pass all revisions that clients have
# seen. Each costs a write to etcd.
MARGIN = 20_000

_ATTEMPTS = 5

Say = Callable[[str], None]


@contextlib.asynccontextmanager
async def opened_backup(file: Path, say: Say) -> AsyncIterator[Storage]:
    """Open the store in a file of `aggserver storage backup`. The file is only read: a copy in TMPDIR is checked and opened.

    Raises StorageError and FileError.
    """
    with tempfile.TemporaryDirectory(prefix="aggserver-backup-") as folder:
        path = Path(folder) / FILE_NAME
        await asyncio.to_thread(sqlite_maintenance.restore, path, file, say, 0)
        store = SQLiteStorage(path)
        await store.start()
        try:
            yield store
        finally:
            await store.close()


async def records(own: Storage) -> list[Record]:
    """All records of the store. Raises StorageError and CantGiveBack."""
    found = []
    for item in (await own.list(RECORDS)).items:
        try:
            found.append(decode(item, record_of))
        except DamagedRecord as error:
            raise CantGiveBack(str(error)) from None
    return found


def without_resources(configuration: JSONMapping, resources: Iterable[tuple[str, str]]) -> JSONObject | None:
    """The guard's configuration without these resources, (group, plural); None if it guards nothing else."""
    gone = {(group, f"{plural}{part}") for group, plural in resources for part in ("", "/*")}
    webhooks, guarded = [], False
    for webhook in configuration["webhooks"]:
        rules = []
        for rule in webhook["rules"]:
            left = [name for name in rule["resources"] if not all((group, name) in gone for group in rule["apiGroups"])]
            if left:
                rules.append({**rule, "resources": left})
        # The probe's rule is for the core group, and guards no adopted resource.
        guarded = guarded or any(rule["apiGroups"] != [""] for rule in rules)
        webhooks.append({**webhook, "rules": rules})
    return {**configuration, "webhooks": webhooks} if guarded else None


async def release_from_backup(
    own: Storage,
    cluster: Cluster,
    host: Storage | None,
    say: Say,
    *,
    definitions: Sequence[str] = (),
    through_api: bool = False,
) -> None:
    """Give families back, those of the named definitions or all. It can be repeated after an error.

    own: the backup, opened. host: the cluster's etcd, started; None if it can't be reached. through_api: whether objects may get
    new uids.
    say: called with a line of text for each step. Raises CantGiveBack, StorageError, ClusterError and Unreachable.
    """
    found = await records(own)
    for name in definitions:
        if not any(name in record.uids for record in found):
            raise CantGiveBack(f"the backup has no record of {name}")
    chosen = [record for record in found if not definitions or any(name in record.uids for name in definitions)]
    if not chosen:
        say("the backup has no record of an adopted definition: there is nothing to give back")
    failed = []
    for record in chosen:
        try:
            await _Family(own, cluster, host, say, record).release(through_api=through_api)
        except (CantGiveBack, StorageError, ClusterError, Unreachable) as error:
            if len(chosen) == 1:
                raise
            say(f"{record.family}: not given back: {error}")
            failed.append(record.family)
    if failed:
        raise CantGiveBack(f"{', '.join(failed)}: not given back, for the reasons above; the same command goes on")


class _Family:
    def __init__(self, own: Storage, cluster: Cluster, host: Storage | None, say: Say, record: Record) -> None:
        self._own = own
        self._cluster = cluster
        self._host = host
        self._say = say
        self._record = record
        self._uids: dict[str, str] = {}

    async def release(self, *, through_api: bool) -> None:
        manifests = await self._manifests()
        if not manifests:
            await self._unguard()
            self._say(f"{self._record.family}: given back already, or deleted")
            return
        services = await self._services()
        for name in manifests:
            await close(self._cluster, name, self._record.uids[name])
        give: list[tuple[str, GiveBack]] = []
        if self._record.phase in LED_HERE and not self._record.shared:
            give = await self._to_give(manifests, through_api=through_api, ours=bool(services))
        if give and self._host is not None:
            await self._announce(self._host)
        for name, back in give:
            if not back.through_api:
                await self._give(name, back)
        if give and self._host is not None:
            await self._advance(self._host)
        for service in services:
            await self._cluster.request("DELETE", f"{API_SERVICES}/{service['metadata']['name']}", body=deletion(service))
            self._say(f"APIService {service['metadata']['name']}: served by kube-apiserver again")
        through = [(name, back) for name, back in give if back.through_api]
        if through:
            await self._pass_guard()
        for name, back in through:
            await self._give(name, back)
        for name in manifests:
            await self._forget(name)
            self._say(f"{name}: given back")
        await self._unguard()

    async def _manifests(self) -> dict[str, JSONObject]:
        """The host's definitions that still have our finalizer."""
        found: dict[str, JSONObject] = {}
        for name, uid in sorted(self._record.uids.items()):
            manifest = await self._get(f"{DEFINITIONS}/{name}")
            if manifest is None or FINALIZER not in (manifest["metadata"].get("finalizers") or ()):
                continue
            if manifest["metadata"]["uid"] != uid:
                raise CantGiveBack(
                    f"{name} is another definition than the backup's: it has the uid {manifest['metadata']['uid']}"
                )
            found[name] = manifest
        return found

    async def _services(self) -> list[JSONObject]:
        """The APIServices that still lead to the lost server. Raises CantGiveBack if it answers."""
        found = []
        for group_version in self._record.group_versions:
            name = name_of(group_version)
            service = await self._get(f"{API_SERVICES}/{name}")
            if service is None or not service["spec"].get("service"):
                continue
            if (service["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) != ADOPTION:
                raise CantGiveBack(f"APIService {name} leads to another server, which did not adopt it")
            if is_true(service, "Available"):
                raise CantGiveBack(
                    f"APIService {name} is available: a server answers behind it. Release by that server, or stop it and try "
                    "again in a minute"
                )
            found.append(service)
        return found

    async def _to_give(self, manifests: Mapping[str, JSONObject], *, through_api: bool, ours: bool) -> list[tuple[str, GiveBack]]:
        """The definitions to give back, each with how, after their checks. ours: whether a group-version still leads to the lost
        server.
        """
        give: list[tuple[str, GiveBack]] = []
        for name, manifest in manifests.items():
            if "deletionTimestamp" in manifest["metadata"]:
                self._say(f"{name}: is being deleted, so its objects are not given back")
                continue
            back: GiveBack
            if self._host is not None:
                if not ours:
                    # Its objects were given back before the group-versions were, and clients may have written them since.
                    continue
                back = GiveBackToStore(self._own, self._host, name, self._record.uids[name])
            else:
                back = GiveBackThroughAPI(self._own, self._cluster, manifest, self._uids)
            copied = self._record.copied[name]
            if await back.unchanged(copied):
                self._say(f"{name}: nothing was written since the move")
                continue
            if back.through_api and not through_api:
                raise CantGiveBack(
                    f"objects of {name} were written since the move: give the cluster's etcd with --host-etcd-servers, so that "
                    "they go back as they are, or --through-api, by which objects that were created since get a new uid"
                )
            await back.check(copied)
            give.append((name, back))
        return give

    async def _give(self, name: str, back: GiveBack) -> None:
        def progress(done: int, total: int, size: int) -> None:
            self._say(f"{name}: {done} of {total} objects, {size / 1e6:.1f} MB written")

        given = await back.rest(self._record.copied[name], progress)
        self._say(f"{name}: {given.written} objects written, {given.deleted} deleted")
        for line in given.messages:
            self._say(f"{name}: {line}")

    async def _announce(self, host: Storage) -> None:
        """Say how long raising the revision of the cluster's etcd will take, if it is long."""
        lacking = await self._own.revision() + MARGIN - await host.revision()
        if lacking > RAISED_AT_ONCE:
            self._say(f"{self._record.family}: the cluster's etcd advances by {raising(lacking)}")

    async def _advance(self, host: Storage) -> None:
        try:
            await host.advance(await self._own.revision() + MARGIN)
        except Unavailable:
            raise
        except StorageError as error:
            self._say(
                f"restart the clients of {self._record.family}: they have seen revisions that the cluster does not reach: {error}"
            )

    async def _pass_guard(self) -> None:
        """Let this client write what the guard refuses others."""
        user = await own_name(self._cluster)
        for found in await self._guards():
            changed = exempting(found, user)
            if changed != found:
                await self._put_guard(changed)

    async def _unguard(self) -> None:
        resources = [(group, plural) for plural, _, group in (name.partition(".") for name in self._record.uids)]
        for found in await self._guards():
            left = without_resources(found, resources)
            if left is None:
                await self._cluster.request("DELETE", f"{CONFIGURATIONS}/{found['metadata']['name']}")
            elif left != found:
                await self._put_guard(left)

    async def _guards(self) -> list[JSONObject]:
        listed = await self._cluster.request("GET", CONFIGURATIONS, query={"labelSelector": f"{GUARD_LABEL}=true"})
        return [found for found in listed["items"] if (found["metadata"].get("labels") or {}).get(GUARD_LABEL) == "true"]

    async def _put_guard(self, guard: JSONObject) -> None:
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        await self._cluster.request("PUT", f"{CONFIGURATIONS}/{guard['metadata']['name']}", body={**kind, **guard})

    async def _forget(self, name: str) -> None:
        """Take our finalizer off."""
        for left in reversed(range(_ATTEMPTS)):
            manifest = await self._get(f"{DEFINITIONS}/{name}")
            if manifest is None:
                return
            metadata = manifest["metadata"]
            kept = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
            patch = {"resourceVersion": metadata["resourceVersion"], "finalizers": kept or None}
            try:
                await self._cluster.request("PATCH", f"{DEFINITIONS}/{name}", body={"metadata": patch})
            except ClusterError as error:
                if error.code == 404:
                    return
                if error.code != 409 or not left:
                    raise
            else:
                return

    async def _get(self, path: str) -> JSONObject | None:
        return await find(self._cluster, path)

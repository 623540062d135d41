"""Informers on a polled and on a fed resource see the truth of the source, over replicas that are killed and come back.

Two replicas behind the real aggregator, which finds another one with each connection: a client lists at one and watches at the
other. Clients write through it, somebody else writes into the source, and every few writes one replica is killed. What informers
of client-go and of the package `kubernetes` and a kopf operator were told is held against the log of the source.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.informer import SharedInformer

from aggserver import AlreadyExists, Conflict, Metadata, NotFound
from tests.command import REPOSITORY
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.history.sources import Key, Log, State, Told, check_told, logged, state_of
from tests.integration.aggregation import Aggregation, wait_until_served
from tests.integration.apps.tickets import DATABASE, PLACE, Table, Ticket, database
from tests.integration.balancing import Balancer
from tests.integration.informer_program import informing
from tests.integration.server import Aggregated, eventually
from tests.waiting import KUBECTL_LIMIT

APP = ("--app", "tests.integration.apps.tickets:app")
SOURCES = ("polled", "fed")
GROUPS = ("direct.example.com", *(f"{source}.example.com" for source in SOURCES))
FIELDS = ("title", "state")
SEED = 617_204
SOME = 8  # acknowledged writes between two kills
END_SECONDS = 60.0
NAMES = [f"t{number}" for number in range(6)]


class Replicas:
    """Two servers of one App at the address to which the Service leads. Their source is in `folder`."""

    def __init__(self, aggregation: Aggregation, folder: Path) -> None:
        self._aggregation = aggregation
        self._folders = [folder / f"replica-{number}" for number in range(2)]
        self._ports = free_ports(2)
        self.servers: dict[int, Aggregated] = {}
        self._ended = threading.Event()
        self._leading = threading.Thread(target=lambda: asyncio.run(self._lead()), daemon=True)

    async def _lead(self) -> None:
        async with Balancer(self._aggregation.port, self._ports):
            await asyncio.to_thread(self._ended.wait)

    def begin(self) -> None:
        self._leading.start()
        for number in range(2):
            self.start(number)

    def start(self, number: int) -> None:
        definitions = str(self._aggregation.definitions)
        self.servers[number] = self._aggregation.beside(
            self._folders[number], self._ports[number], "--definitions", definitions, *APP
        )

    def kill(self, number: int) -> None:
        self.servers.pop(number).kill()

    def end(self) -> None:
        for server in self.servers.values():
            assert server.stop() == 0, server.output
        self._ended.set()
        self._leading.join()


@pytest.fixture(scope="module")
def replicas(aggregation: Aggregation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    plane = aggregation.plane
    assert aggregation.server.stop() == 0, aggregation.server.output
    made = Replicas(aggregation, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLACE, str(folder / DATABASE))
        made.begin()
        try:
            for group in GROUPS:
                name = f"apiservice/v1.{group}"
                eventually(partial(_is_there, plane, name), name)
                plane.kubectl("wait", "--for=condition=Available", name, KUBECTL_LIMIT)
            wait_until_served(plane)
            yield made
        finally:
            made.end()
            for group in GROUPS:
                plane.kubectl("delete", "apiservice", f"v1.{group}", "--ignore-not-found")
            aggregation.start()
            wait_until_served(plane)


def _is_there(plane: ControlPlane, name: str) -> bool:
    return plane.kubectl("get", name, check=False).returncode == 0


# --- who writes


class Writer(threading.Thread):
    """Creates, changes and deletes a few tickets that all writers fight for, until it is told to stop."""

    def __init__(self, number: int, source: str, namespace: str, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.faults: list[BaseException] = []
        self._number = number
        self._source = source
        self._namespace = namespace
        self._chance = chance
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        count = 0
        try:
            while not self._stopped.is_set():
                count += 1
                if self._write(self._chance.choice(NAMES), f"{self._number}-{count}"):
                    self.acknowledged += 1
        except BaseException as error:
            self.faults.append(error)

    def _write(self, name: str, title: str) -> bool:
        """Whether it was acknowledged."""
        raise NotImplementedError


class ClientWriter(Writer):
    """By the aggregator. A server that is killed answers nothing, or an error of the aggregator."""

    def __init__(self, kubeconfig: Path, *more: Any) -> None:
        super().__init__(*more)
        self._api = client.CustomObjectsApi(config.new_client_from_config(str(kubeconfig)))

    def _write(self, name: str, title: str) -> bool:
        where = f"{self._source}.example.com", "v1", self._namespace, "tickets"
        chosen = self._chance.random()
        try:
            if chosen < 0.3:
                metadata = {"name": name}
                body = {"apiVersion": f"{where[0]}/v1", "kind": "Ticket", "metadata": metadata, "title": title}
                self._api.create_namespaced_custom_object(*where, body)
            elif chosen < 0.5:
                self._api.delete_namespaced_custom_object(*where, name)
            else:
                self._api.patch_namespaced_custom_object(*where, name, {"title": title})
        except client.ApiException as error:
            if error.status not in (404, 409) and error.status < 500:
                raise
            return False
        except Exception:  # the connection is gone, which urllib3 tells in many ways
            return False
        return True


class SourceWriter(Writer):
    """Into the source, of which no server knows before it polls or is told."""

    def _write(self, name: str, title: str) -> bool:
        table = Table(self._source)
        found = table.get(self._namespace, name)
        try:
            if found is None:
                table.create(Ticket(Metadata(name, self._namespace), title))
            elif self._chance.random() < 0.3:
                table.delete(self._namespace, name)
            else:
                table.update(Ticket(found.metadata, title, self._chance.choice(("open", "closed"))), found)
        except (AlreadyExists, Conflict, NotFound):
            return False
        self._stopped.wait(0.02)
        return True


# --- who watches


class Watcher:
    """What one client of one source was told, of one namespace."""

    def __init__(
        self,
        name: str,
        told: Callable[[], list[Told]],
        held: Callable[[], dict[Key, State]] | None = None,
        *,
        is_told_of_all: bool = True,
    ) -> None:
        self.name = name
        self._told = told
        self._held = held
        self._is_told_of_all = is_told_of_all

    def told(self, log: Log) -> list[Told]:
        """Also of deletions that a client was not told of, if it is one of those."""
        told = self._told()
        if self._is_told_of_all:
            return told
        gone = {key: state for key, state in _view(told).items() if key not in log.now()}
        return [*told, *(Told("delete", key, state, len(told)) for key, state in gone.items())]

    def held(self, log: Log) -> dict[Key, State]:
        return _view(self.told(log)) if self._held is None else self._held()

    def is_at_end(self, log: Log) -> bool:
        return _view(self.told(log)) == log.now() == self.held(log)


def _view(told: Sequence[Told]) -> dict[Key, State]:
    found: dict[Key, State] = {}
    for each in told:
        if each.what == "delete":
            found.pop(each.key, None)
        else:
            found[each.key] = each.state
    return found


def is_in(namespace: str, obj: Any) -> bool:
    return bool(obj["metadata"]["namespace"] == namespace)


@contextlib.contextmanager
def go_informer(folder: Path, kubeconfig: Path, source: str, namespace: str, watch_list: str) -> Iterator[Watcher]:
    said = folder / f"go-{source}-{watch_list}"
    environment = {"KUBE_FEATURE_WatchListClient": watch_list}
    with informing(said, kubeconfig, f"tickets.v1.{source}.example.com", environment=environment):

        def told() -> list[Told]:
            lists, found = 0, []
            for line in said.read_text().splitlines(keepends=True):
                if not line.endswith("\n"):
                    break
                each = json.loads(line)
                lists += each["did"] == "list"
                if each["did"] in ("add", "update", "delete") and is_in(namespace, each["object"]):
                    found.append(Told(each["did"], *state_of(each["object"], FIELDS), lists))
            return found

        yield Watcher(f"client-go, WatchList {watch_list}, {source}", told)


@contextlib.contextmanager
def python_informer(kubeconfig: Path, source: str, namespace: str) -> Iterator[Watcher]:
    api = client.CustomObjectsApi(config.new_client_from_config(str(kubeconfig)))
    found: list[Told] = []
    lists = 0

    def read(watch: bool = False, **query: Any) -> Any:
        """:rtype: object"""
        nonlocal lists
        answer = api.list_cluster_custom_object(f"{source}.example.com", "v1", "tickets", watch=watch, **query)
        if watch:
            return answer
        lists += 1
        metadata = SimpleNamespace(resource_version=answer["metadata"]["resourceVersion"])
        return SimpleNamespace(items=answer["items"], metadata=metadata)

    def tell(what: str, obj: Any) -> None:
        if is_in(namespace, obj):
            found.append(Told(what, *state_of(obj, FIELDS), lists))

    informer = SharedInformer(read)
    for event, what in (("ADDED", "add"), ("MODIFIED", "update"), ("DELETED", "delete")):
        informer.add_event_handler(event, lambda obj, what=what: tell(what, obj))
    informer.add_event_handler("ERROR", lambda error: threading.Event().wait(0.1))
    informer.start()
    try:
        yield Watcher(
            f"kubernetes, {source}",
            lambda: list(found),
            lambda: dict(state_of(obj, FIELDS) for obj in informer.cache.list() if is_in(namespace, obj)),
        )
    finally:
        informer.stop()
        api.api_client.close()


# kopf lists and watches, and gives each event to its handlers: of a list without a type.
OPERATOR = """
import json, os, kopf

@kopf.on.event("{group}", "v1", "tickets")
def told(type, body, **_):
    with open("{said}", "a") as file:
        file.write(json.dumps({{"type": type, "object": dict(body)}}) + "\\n")
"""


@contextlib.contextmanager
def kopf_operator(folder: Path, kubeconfig: Path, source: str, namespace: str) -> Iterator[Watcher]:
    """A list that it begins anew with tells it nothing of what went meanwhile: of that it hears no word.

    Of several events of an object within a tenth of a second it gives only the last to its handlers, so that a list may not be
    seen that was answered by a replica which had not polled yet: whether it goes back in time without one is not known.
    """
    said, program = folder / f"kopf-{source}.said", folder / f"kopf_{source}.py"
    said.touch()
    program.write_text(OPERATOR.format(group=f"{source}.example.com", said=said))
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", namespace, str(program)]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(REPOSITORY)}
    with (
        (folder / f"kopf-{source}.log").open("w") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):

        def told() -> list[Told]:
            known: dict[Key, str] = {}  # to uids
            found: list[Told] = []
            for line in said.read_text().splitlines(keepends=True):
                if not line.endswith("\n"):
                    break
                event = json.loads(line)
                key, state = state_of(event["object"], FIELDS)
                what = "delete" if event["type"] == "DELETED" else "update" if key in known else "add"
                if what == "delete":
                    if known.get(key) != state.uid:  # its handlers run apart for each uid: an older object of the name
                        continue
                    del known[key]
                else:
                    known[key] = state.uid
                found.append(Told(what, key, state, len(found)))
            return found

        try:
            yield Watcher(f"kopf, {source}", told, is_told_of_all=False)
        finally:
            process.terminate()
            process.wait()


# ---


def log_of(source: str, namespace: str) -> Log:
    rows = database().execute(
        "select namespace, name, uid, version, title, state from log where source = ? and namespace = ? order by id",
        (source, namespace),
    )
    return logged(rows)


def write_on(writers: Sequence[Writer], count: int) -> None:
    """Until each source has so many more acknowledged writes of clients and of others."""
    goals = [writer.acknowledged + count for writer in writers]

    def there() -> bool:
        faults = [fault for writer in writers for fault in writer.faults]
        if faults:
            raise faults[0]
        return all(writer.acknowledged >= goal for writer, goal in zip(writers, goals, strict=True))

    eventually(there, f"writers write on: {[writer.acknowledged for writer in writers]}")


@pytest.mark.parametrize("kills", [2, pytest.param(8, marks=pytest.mark.long)])
def test_informers_see_the_truth_of_the_source(
    replicas: Replicas, aggregation: Aggregation, namespace: str, tmp_path: Path, kills: int
) -> None:
    chance = random.Random(SEED)
    kubeconfig = aggregation.plane.kubeconfig
    writers = [
        kind(*first, number, source, namespace, random.Random(chance.random()))
        for source in SOURCES
        for number, (kind, first) in enumerate([(ClientWriter, (kubeconfig,)), (ClientWriter, (kubeconfig,)), (SourceWriter, ())])
    ]
    with contextlib.ExitStack() as running:
        watchers: dict[str, list[Watcher]] = {source: [] for source in SOURCES}
        for source, of_source in watchers.items():
            for watch_list in ("true", "false"):
                of_source.append(running.enter_context(go_informer(tmp_path, kubeconfig, source, namespace, watch_list)))
            of_source.append(running.enter_context(python_informer(kubeconfig, source, namespace)))
            of_source.append(running.enter_context(kopf_operator(tmp_path, kubeconfig, source, namespace)))
        for source in SOURCES:  # so that no list is empty
            Table(source).create(Ticket(Metadata("kept", namespace), "kept"))
        for writer in writers:
            writer.start()
        try:
            for turn in range(kills):
                write_on(writers, SOME)
                replicas.kill(turn % 2)
                write_on(writers, SOME)
                replicas.start(turn % 2)
            write_on(writers, SOME)
        finally:
            for writer in writers:
                writer.stop()
            for writer in writers:
                writer.join()
        assert [fault for writer in writers for fault in writer.faults] == []
        logs = {source: log_of(source, namespace) for source in SOURCES}

        def at_end() -> bool:
            return all(watcher.is_at_end(logs[source]) for source in SOURCES for watcher in watchers[source])

        with contextlib.suppress(AssertionError):  # the check says what is missing
            eventually(at_end, "all are at the end", END_SECONDS)
        faults = []
        for source, of_source in watchers.items():
            log = logs[source]
            assert sum(map(len, log.states.values())) > 2 * kills * SOME
            for watcher in of_source:
                found = check_told(log, watcher.told(log), watcher.held(log))
                faults += [f"{watcher.name}: {len(found)} faults, the first: {text}" for text in found[:2]]
        assert not faults, "\n".join(faults)

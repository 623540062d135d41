"""manifests/examples/python/postgres with a real database: the contract, 100,000 rows, and a database that is killed.

No file of the other sizes of tests: `python -m tests.postgres` runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggserver import Metadata
from aggserver.testing import Server, check_source
from tests.controlplane.binaries import obtain
from tests.controlplane.processes import free_ports
from tests.history.sources import Log, Told, check_told, logged, state_of
from tests.integration.informer_program import informing
from tests.postgres.database import Database, DatabaseError
from tests.waiting import HANG_SECONDS, POLL_SECONDS

ROWS = 100_000
ALL = "/apis/dc.example.com/v1/machines"
FOLLOW = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3600"

# All states that the rows ever had.
LOGGED = """
create table log (id bigserial primary key, site text, name text, uid uuid, version bigint, cores integer, state text);
create function machine_logged() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        insert into log (site, name, uid) values (old.site, old.name, old.uid);
    else
        insert into log (site, name, uid, version, cores, state)
        values (new.site, new.name, new.uid, new.version, new.cores, new.state);
    end if;
    return null;
end $$;
insert into log (site, name, uid, version, cores, state) select site, name, uid, version, cores, state from machine;
create trigger machine_logged after insert or update or delete on machine for each row execute function machine_logged();
"""
STATEMENTS = (
    "insert into machine (site, name, cores) values ('north', '{name}', {cores}) on conflict do nothing",
    "update machine set cores = {cores} where name = '{name}'",
    "update machine set state = case state when 'on' then 'off' else 'on' end where name = '{name}'",
    "delete from machine where site = 'north' and name = '{name}'",
)
NAMES = ("dell", "sun", "hp", "cray")
SEED, SOME = 408_133, 150


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    made = Database()
    try:
        made.start()
        made.make_table()
        made.sql("insert into machine (site, name, cores) values ('north', 'dell', 4), ('north', 'sun', 8), ('south', 'dell', 2)")
        monkeypatch.setenv("DATABASE", made.address)
        yield made
    finally:
        made.stop()


class Kubectl:
    """kubectl for one server."""

    def __init__(self, server: Server) -> None:
        program = obtain(os.environ, print).kubectl
        self._command = [str(program), f"--kubeconfig={server.kubeconfig}"]
        self._environment = {**os.environ, "HOME": str(server.kubeconfig.parent)}

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments], input=text, capture_output=True, text=True, check=False, env=self._environment
        )

    def __call__(self, *arguments: str, text: str = "") -> str:
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def events(self, path: str) -> Events:
        return Events([*self._command, "get", "--raw", path], self._environment)


class Events:
    """A watch: how many events of each type came, and of which objects."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.counts: Counter[str] = Counter()
        self.changes: list[tuple[str, str]] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            metadata = event["object"]["metadata"]
            self.changes.append((event["type"], f"{metadata.get('namespace')}/{metadata.get('name')}"))
            self.counts[event["type"]] += 1

    @property
    def is_open(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.terminate()
        self._thread.join()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def kubectl(database: Database, tmp_path: Path) -> Iterator[Kubectl]:
    folder = tmp_path / "server"
    folder.mkdir()
    with Server(arguments=["--app", "machines:app"], folder=folder) as server:
        yield Kubectl(server)


def until(probe: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 2 * HANG_SECONDS
    while not probe():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_SECONDS)


def test_it_keeps_the_contract(database: Database) -> None:
    import machines

    def grow(value: machines.Machine) -> None:
        value.cores += 1

    async def check() -> None:
        async def touch() -> None:
            await asyncio.to_thread(database.sql, "update machine set state = 'on' where name = 'dell'")

        async with machines.database() as pool:
            new = machines.Machine(Metadata("new", "south"), 1)
            await check_source(machines.machines, state=pool, new=new, change=grow, touch=touch, seconds=HANG_SECONDS)

    asyncio.run(check())
    assert database.sql("select count(*) from machine") == "3"


def test_the_test_of_the_page(database: Database) -> None:
    """docs/sources.md has it."""
    page = Path(__file__).parents[2] / "docs" / "sources.md"
    (text,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(text, names)
    asyncio.run(names["test_the_machines_keep_the_contract"]())


def test_kubectl(kubectl: Kubectl, database: Database) -> None:
    kubectl("create", "namespace", "north")  # objects are made only in namespaces that there are
    assert re.search(r"north +dell +4 +off +\d+s", kubectl("get", "machines", "-A"))
    assert kubectl("get", "machines", "-n", "north", "--field-selector=state=on", "-o", "name") == ""
    applied = {"apiVersion": "dc.example.com/v1", "kind": "Machine", "metadata": {"name": "hp", "namespace": "north"}}
    text = json.dumps({**applied, "cores": 16, "state": "on"})
    kubectl("apply", "--server-side", "--field-manager=ann", "-f", "-", text=text)
    assert database.sql("select cores, state from machine where name = 'hp'") == "16|on"
    assert "serverside-applied" in kubectl("apply", "--server-side", "--field-manager=ann", "-f", "-", text=text)
    taken = kubectl.run(
        *("apply", "--server-side", "--field-manager=bob", "-f", "-"), text=json.dumps({**applied, "cores": 1, "state": "on"})
    )
    assert 'conflict with "ann": .cores' in taken.stderr
    kubectl("label", "machine", "hp", "-n", "north", "rack=a1")
    assert kubectl("get", "machines", "-A", "-l", "rack=a1", "-o", "name") == "machine.dc.example.com/hp\n"
    refused = kubectl.run("patch", "machine", "hp", "-n", "north", "--type=merge", "-p", '{"cores":0}')
    assert "the database refuses it" in refused.stderr
    kubectl("delete", "machine", "hp", "-n", "north", "--dry-run=server")
    assert database.sql("select count(*) from machine") == "4"
    old = kubectl("get", "machine", "dell", "-n", "north", "-o", "json")
    database.sql("update machine set cores = 5 where name = 'dell'")
    assert "Conflict" in kubectl.run("replace", "-f", "-", text=old).stderr
    kubectl("delete", "machine", "hp", "-n", "north")
    assert database.sql("select count(*) from machine where name = 'hp'") == "0"


def test_many_rows(kubectl: Kubectl, database: Database) -> None:
    with closing(kubectl.events(f"{ALL}?{FOLLOW}")) as watch:
        database.sql(f"insert into machine (site, name, cores) select 'many', 'm' || n, 1 from generate_series(1, {ROWS}) as n")
        until(lambda: watch.counts["ADDED"] >= ROWS + 3, "the rows were not told")
        names = kubectl("get", "machines", "-n", "many", "--chunk-size=500", "-o", "name").split()
        assert len(names) == len(set(names)) == ROWS
        with closing(kubectl.events(f"{ALL}?{FOLLOW}")) as late:
            until(lambda: late.counts["BOOKMARK"], "a later watch did not come to the end of what there is")
        assert late.counts["ADDED"] == ROWS + 3
        database.sql("update machine set cores = 2 where name like 'm9%' and site = 'many'")
        changed = int(database.sql("select count(*) from machine where cores = 2 and site = 'many'"))
        until(lambda: watch.counts["MODIFIED"] >= changed, "the changes were not told")
        database.sql("delete from machine where name like 'm99%'")
        gone = ROWS - int(database.sql("select count(*) from machine where site = 'many'"))
        until(lambda: watch.counts["DELETED"] >= gone, "the deletions were not told")
    assert watch.counts["ADDED"] == ROWS + 3
    assert watch.counts["MODIFIED"] == changed > 10_000
    assert watch.counts["DELETED"] == gone > 1_000


def test_a_database_that_is_killed(kubectl: Kubectl, database: Database) -> None:
    def listed() -> subprocess.CompletedProcess[str]:
        return kubectl.run("get", "machines", "-A")

    with closing(kubectl.events(f"{ALL}?{FOLLOW}")) as watch:
        until(lambda: watch.counts["BOOKMARK"], "the watch did not begin")
        database.kill()
        until(lambda: "this is the state from before that" in listed().stderr, "nobody was warned")
        assert len(listed().stdout.splitlines()) == 4
        refused = kubectl.run("patch", "machine", "dell", "-n", "north", "--type=merge", "-p", '{"cores":9}')
        assert "the database does not answer" in refused.stderr
        until(lambda: listed().returncode, "an old state was shown for ever")
        assert "ServiceUnavailable" in listed().stderr
        assert watch.counts["DELETED"] == 0
        database.start()
        database.sql("update machine set cores = 9 where name = 'sun'; delete from machine where site = 'south'")
        until(lambda: (shown := listed()).returncode == 0 and not shown.stderr, "it did not recover")
        until(lambda: watch.counts["DELETED"], "what was deleted was not told")
        assert watch.is_open
    names = [(kind, name) for kind, name in watch.changes if kind in ("MODIFIED", "DELETED")]
    assert sorted(names) == [("DELETED", "south/dell"), ("MODIFIED", "north/sun")]


class Writer(threading.Thread):
    """Runs statements until it is told to stop. written: how many have succeeded."""

    def __init__(self, database: Database) -> None:
        super().__init__(daemon=True)
        self.written = 0
        self._database = database
        self._chance = random.Random(SEED)
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            statement = self._chance.choice(STATEMENTS)
            statement = statement.format(name=self._chance.choice(NAMES), cores=self._chance.randint(1, 99))
            try:
                self._database.sql(statement)
            except DatabaseError:  # it is being killed
                continue
            self.written += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def read_log(database: Database) -> Log:
    rows = database.sql("select site, name, uid, version, cores, state from log order by id").splitlines()
    found = []
    for row in rows:
        site, name, uid, version, cores, state = row.split("|")
        found.append((site, name, uid, int(version) if version else None, int(cores) if cores else None, state))
    return logged(found)


def read_told(said: Path) -> list[Told]:
    lists, found = 0, []
    for line in said.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        each = json.loads(line)
        lists += each["did"] == "list"
        if each["did"] in ("add", "update", "delete"):
            found.append(Told(each["did"], *state_of(each["object"], ("cores", "state")), lists))
    return found


def test_informers_are_told_what_the_database_had(database: Database, tmp_path: Path) -> None:
    """client-go's, with WatchList and without, while somebody writes and database and server are ended in turn."""
    database.sql(LOGGED)
    arguments = ["--app", "machines:app", "--data", str(tmp_path / "data"), "--secure-port", str(free_ports(1)[0])]
    server = Server(arguments=arguments, folder=tmp_path)
    said = {watch_list: tmp_path / f"said-{watch_list}" for watch_list in ("true", "false")}
    with server, contextlib.ExitStack() as stack:
        kubeconfig = server.kubeconfig
        informers = {
            path: stack.enter_context(
                informing(
                    path, kubeconfig, "machines.v1.dc.example.com", environment={"KUBE_FEATURE_WatchListClient": watch_list}
                )
            )
            for watch_list, path in said.items()
        }
        for path in said.values():
            until(lambda path=path: read_told(path), "an informer was told nothing")
        writer = Writer(database)
        writer.start()
        for ends_server in (False, True, False, True):
            wanted = writer.written + SOME
            until(lambda wanted=wanted: writer.written >= wanted, "nothing could be written")
            if ends_server:
                server.stop()
                server.start()
            else:
                database.kill()
                database.start()
        writer.stop()
        log = read_log(database)
        for path, informer in informers.items():
            until(
                lambda path=path: not [each for each in check_told(log, read_told(path), log.now()) if each.startswith("at")],
                "an informer did not come to the state of the database",
            )
            held = dict(state_of(obj, ("cores", "state")) for obj in informer.end())
            told = read_told(path)
            assert check_told(log, told, held) == []
            assert len(told) > SOME // 3
        assert len(log.states) >= len(NAMES)
        assert sum(map(len, log.states.values())) > SOME

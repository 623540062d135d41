"""The --audit flags: where events go, and what refuses a start."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aggserver.app.auditing import open_auditor
from aggserver.app.errors import StartError
from aggserver.audit.events import AuditRecord
from aggserver.audit.policy import REQUEST, AuditConfig
from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.monitoring.metrics import Metrics
from aggserver.options import Options, parse
from tests.controlplane.processes import free_ports
from tests.fakes.clock import until

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n"


def options(folder: Path, *argv: str, policy: str = POLICY) -> Options:
    path = folder / "policy.yaml"
    path.write_text(policy)
    return parse(["dev", f"--audit-policy-file={path}", *argv], {})


def record(name: str = "", size: int = 0) -> AuditRecord:
    attributes = Attributes(UserInfo("bob"), "get", path="/version")
    made = AuditRecord(AuditConfig(REQUEST), attributes, name, "/version", (), "", "2026-01-02T03:04:05.000006Z")
    made.object({"data": "x" * size})
    return made


async def sent(given: Options, *records: AuditRecord) -> str:
    """Send an event for each record, and end. The metrics."""
    metrics = Metrics()
    async with open_auditor(given, metrics) as auditor:
        assert auditor is not None
        for each in records:
            taken = auditor.send(each, "RequestReceived")
            assert taken is True
    return metrics.exposition().decode()


def ids(path: Path) -> list[str]:
    return [json.loads(line)["auditID"] for line in path.read_text().splitlines()]


def rotated_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("audit-*.log"))


@pytest.mark.parametrize("mode", ["blocking", "blocking-strict", "batch"])
async def test_a_log(tmp_path: Path, mode: str) -> None:
    log = tmp_path / "logs" / "audit.log"
    metrics = await sent(
        options(tmp_path, f"--audit-log-path={log}", f"--audit-log-mode={mode}"), *(record(str(n)) for n in range(9))
    )
    assert ids(log) == [str(n) for n in range(9)]
    assert "apiserver_audit_event_total 9.0" in metrics
    assert 'apiserver_audit_level_total{level="Metadata"} 0.0' in metrics


async def test_a_batch_longer_than_a_piece(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    given = options(tmp_path, f"--audit-log-path={log}", "--audit-log-mode=batch", "--audit-log-maxsize=1")
    await sent(given, *(record(str(n), 100_000) for n in range(20)))
    rotated = rotated_in(tmp_path)
    assert len(rotated) == 1
    assert [name for path in (*rotated, log) for name in ids(path)] == [str(n) for n in range(20)]


async def test_lines_of_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    await sent(options(tmp_path, "--audit-log-path=-", "--audit-log-format=legacy"), record("a"))
    assert capfd.readouterr().out.startswith('2026-01-02T03:04:05.000006Z AUDIT: id="a" stage="RequestReceived"')


async def test_long_events_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    given = options(
        tmp_path, f"--audit-log-path={log}", "--audit-log-truncate-enabled", "--audit-log-truncate-max-event-size=1000"
    )
    await sent(given, record("short"), record("long", 1000))
    short, long = map(json.loads, log.read_text().splitlines())
    assert ("requestObject" in short, "requestObject" in long) == (True, False)
    assert long["annotations"] == {"audit.k8s.io/truncated": "true"}


async def test_without_a_policy_there_is_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for given, said in ((Options(command="dev"), 0), (parse(["dev", f"--audit-log-path={tmp_path / 'log'}"], {}), 1)):
        async with open_auditor(given, Metrics()) as auditor:
            assert auditor is None
        assert len(caplog.records) == said
    assert not (tmp_path / "log").exists()


async def test_a_policy_without_a_place_is_read(tmp_path: Path) -> None:
    async with open_auditor(options(tmp_path), Metrics()) as auditor:
        assert auditor is None
    with pytest.raises(StartError):
        await sent(options(tmp_path, policy="{}"))


# name: (the policy's text, the error, in which FILE is the file)
REFUSED = {
    "a wrong level": (
        POLICY.replace("Request", "All"),
        '--audit-policy-file: loading audit policy file: rules[0].level: Unsupported value: "All": supported values: '
        '"None", "Metadata", "Request", "RequestResponse": from file FILE',
    ),
    "no file": ("", '--audit-policy-file: loading audit policy file: failed to read file path "FILE": open FILE: no such file'),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_policy_that_refuses_the_start(tmp_path: Path, case: str) -> None:
    policy, text = REFUSED[case]
    given = options(tmp_path, f"--audit-log-path={tmp_path / 'log'}", policy=policy)
    if not policy:
        (tmp_path / "policy.yaml").unlink()
    with pytest.raises(StartError, match=re.escape(text.replace("FILE", str(tmp_path / "policy.yaml")))):
        await sent(given)


async def test_what_the_policy_has_too_much_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_auditor(options(tmp_path, policy=f"{POLICY}more: 1\n"), Metrics()):
        assert 'strict decoding error: unknown field "more"' in caplog.text


# --- the webhook ---


class Remote:
    """A webhook on loopback. hold: while it is not set, it answers nothing."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.paths: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body: dict[str, Any] = json.loads(await request.read())
        self.paths.append(request.raw_path)
        self.lists.append([event["auditID"] for event in body["items"]])
        await self.hold.wait()
        return web.Response(text="thanks, which is no JSON")


@asynccontextmanager
async def remote(folder: Path) -> AsyncIterator[Remote]:
    (port,) = free_ports(1)
    made = Remote()
    runner = web.ServerRunner(web.Server(made.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}/events"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "abc"}}]
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "users": users}
    (folder / "kubeconfig").write_text(json.dumps({**config, "current-context": "x"}))
    try:
        yield made
    finally:
        made.hold.set()
        await runner.cleanup()


def to_webhook(folder: Path, *argv: str) -> Options:
    return options(folder, f"--audit-webhook-config-file={folder / 'kubeconfig'}", *argv)


async def test_a_webhook_gets_batches(tmp_path: Path) -> None:
    async with remote(tmp_path) as webhook:
        await sent(to_webhook(tmp_path, "--audit-webhook-batch-max-size=2"), record("a"), record("b"), record("c"))
    assert sorted(webhook.lists) == [["a", "b"], ["c"]]
    assert webhook.paths == ["/events?timeout=30s"] * 2


async def test_a_webhook_that_hangs_holds_up_nothing(tmp_path: Path) -> None:
    async with remote(tmp_path) as webhook:
        webhook.hold.clear()
        given = to_webhook(tmp_path, "--audit-webhook-batch-buffer-size=5", "--audit-webhook-batch-max-size=1")
        metrics = Metrics()
        async with open_auditor(given, metrics) as auditor:
            assert auditor is not None
            for number in range(100):
                assert auditor.send(record(str(number)), "RequestReceived") is True
            assert 'apiserver_audit_error_total{plugin="buffered"} 95.0' in metrics.exposition().decode()
            await until(lambda: webhook.lists)
            webhook.hold.set()
    assert len(webhook.lists) == 5


@pytest.mark.parametrize("mode", ["blocking", "blocking-strict"])
async def test_a_webhook_that_requests_wait_for(tmp_path: Path, mode: str) -> None:
    async with remote(tmp_path) as webhook:
        given = dataclasses.replace(
            to_webhook(tmp_path, f"--audit-webhook-mode={mode}"), audit_webhook_initial_backoff_seconds=0.0
        )
        async with open_auditor(given, Metrics()) as auditor:
            assert auditor is not None
            taken = auditor.send(record("a"), "RequestReceived")
            assert not isinstance(taken, bool)
            assert await taken is True
        assert webhook.lists == [["a"]]
    async with open_auditor(given, Metrics()) as auditor:
        assert auditor is not None
        taken = auditor.send(record("a"), "RequestReceived")
        assert not isinstance(taken, bool)
        assert await taken is (mode == "blocking")  # nobody is there any more


async def test_a_webhook_without_a_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="--audit-webhook-config-file: initializing audit webhook: no kubeconfig at"):
        await sent(to_webhook(tmp_path), record())

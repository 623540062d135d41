"""Health, version, metrics and the index, byte for byte."""

from __future__ import annotations

import json

import pytest

from aggserver.monitoring.health import HealthChecks
from aggserver.monitoring.metrics import Metrics
from aggserver.monitoring.routes import application


async def ask(app, path, query=b"", method="GET"):
    messages = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        messages.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "https",
        "query_string": query,
        "headers": [],
        "http_version": "1.1",
        "server": ("127.0.0.1", 1),
        "client": None,
    }
    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return messages[0]["status"], headers, body.decode()


async def test_a_warning_fails_nothing():
    checks = HealthChecks()
    said = ["the ConfigMap can't be used"]
    checks.add("authentication", lambda: None, livez=False, warning=lambda: said[0])
    app = application(checks, Metrics(), list, "0.1.0")
    assert (await ask(app, "/readyz"))[::2] == (200, "ok")
    line = "[+]authentication ok, with a warning: reason withheld\n"
    assert (await ask(app, "/readyz", b"verbose"))[::2] == (200, f"[+]ping ok\n[+]shutdown ok\n{line}readyz check passed\n")
    assert (await ask(app, "/readyz/authentication"))[::2] == (200, "ok, with a warning: the ConfigMap can't be used\n")
    said[0] = None
    assert (await ask(app, "/readyz/authentication"))[::2] == (200, "ok")


def build(**failing):
    checks = HealthChecks()
    for name, why in failing.items():
        checks.add(name, lambda why=why: why)
    return checks, application(checks, Metrics(), lambda: ["/apis/stable.example.com", "/api"], "0.1.0")


SUMMARIES = {
    "ok": ({}, "/livez", b"", 200, "ok"),
    "slash": ({}, "/livez/", b"", 200, "ok"),
    "verbose": ({"storage": None}, "/livez", b"verbose", 200, "[+]ping ok\n[+]storage ok\nlivez check passed\n"),
    "verbose readyz": ({}, "/readyz", b"verbose=true", 200, "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"),
    "verbose healthz": ({}, "/healthz", b"verbose", 200, "[+]ping ok\nhealthz check passed\n"),
    "failure": (
        {"storage": "disk on fire"},
        "/livez",
        b"",
        500,
        "[+]ping ok\n[-]storage failed: reason withheld\nlivez check failed\n",
    ),
    "excluded": (
        {"storage": "disk on fire"},
        "/livez",
        b"verbose&exclude=storage",
        200,
        "[+]ping ok\n[+]storage excluded: ok\nlivez check passed\n",
    ),
    "excluded, not verbose": ({"storage": "disk on fire"}, "/livez", b"exclude=storage", 200, "ok"),
    "excluded what is not there": (
        {},
        "/livez",
        b"verbose&exclude=b&exclude=a",
        200,
        '[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "a","b"\nlivez check passed\n',
    ),
    "single": ({}, "/livez/ping", b"", 200, "ok"),
    "single failure has its reason": ({"storage": "on fire"}, "/readyz/storage", b"", 500, "internal server error: on fire\n"),
}


@pytest.mark.parametrize(("failing", "path", "query", "status", "body"), SUMMARIES.values(), ids=SUMMARIES)
async def test_summaries(failing, path, query, status, body):
    _, app = build(**failing)
    got = await ask(app, path, query)
    assert (got[0], got[2]) == (status, body)
    assert got[1]["content-type"] == "text/plain; charset=utf-8"
    assert got[1]["x-content-type-options"] == "nosniff"


async def test_head():
    _, app = build()
    assert (await ask(app, "/livez", method="HEAD"))[0] == 200


async def test_shutdown_is_no_matter_of_liveness():
    checks, app = build()
    checks.begin_shutdown()
    assert (await ask(app, "/livez"))[0] == 200
    expected = "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n"
    assert (await ask(app, "/readyz"))[::2] == (500, expected)


async def test_a_check_of_readiness_alone():
    checks, app = build()
    checks.add("caches", lambda: "not synced", livez=False)
    assert (await ask(app, "/livez"))[0] == 200
    assert (await ask(app, "/readyz"))[0] == 500
    assert (await ask(app, "/livez/caches"))[0] == 404


async def test_version():
    _, app = build()
    status, headers, body = await ask(app, "/version")
    info = json.loads(body)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert (info["major"], info["minor"], info["gitVersion"]) == ("1", "36", "v1.36.3+aggserver-0.1.0")
    assert set(info) >= {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"}
    assert body.startswith('{\n  "major": "1",\n')
    emulated = {name: info[name] for name in list(info)[2:6]}
    assert emulated == {
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
    }


async def test_index_and_what_is_not_there():
    _, app = build()
    status, headers, body = await ask(app, "/")
    paths = json.loads(body)["paths"]
    assert (status, headers["content-type"]) == (200, "application/json")
    assert paths == sorted(paths)
    assert {"/api", "/apis/stable.example.com", "/livez/ping", "/metrics", "/readyz/shutdown", "/version"} <= set(paths)
    assert (await ask(app, "/nowhere"))[::2] == (404, body)


async def test_metrics_are_served():
    _, app = build()
    status, headers, body = await ask(app, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE apiserver_request_total counter" in body


async def test_metrics_of_the_checks():
    said = ["", "broken"]
    checks = HealthChecks()
    checks.add("storage", lambda: said.pop(), livez=False)
    app = application(checks, Metrics(), list, "0.1.0")
    assert (await ask(app, "/metrics/slis"))[::2] == (200, "")
    await ask(app, "/livez/ping")  # of a single check, nothing is counted
    for query in (b"", b"verbose", b"exclude=storage&exclude=shutdown"):
        await ask(app, "/readyz", query)
    await ask(app, "/livez")
    status, headers, body = await ask(app, "/metrics/slis")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert body.splitlines() == [
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
        "# TYPE kubernetes_healthcheck gauge",
        'kubernetes_healthcheck{name="ping",type="livez"} 1',
        'kubernetes_healthcheck{name="ping",type="readyz"} 1',
        'kubernetes_healthcheck{name="shutdown",type="readyz"} 1',
        'kubernetes_healthcheck{name="storage",type="readyz"} 1',
        "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
        "# TYPE kubernetes_healthchecks_total counter",
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1',
        'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 3',
        'kubernetes_healthchecks_total{name="shutdown",status="success",type="readyz"} 2',
        'kubernetes_healthchecks_total{name="storage",status="error",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="storage",status="success",type="readyz"} 1',
    ]

"""Metrics: names and labels as upstream has them, bounded labels, and series that can go."""

from __future__ import annotations

import pytest

from aggserver.endpoints.request import Request
from aggserver.endpoints.request_info import parse
from aggserver.monitoring.metrics import Metrics, RequestObserver
from tests.fakes import definitions

CRONTABS = {("stable.example.com", "v1", "crontabs")}
BASE = "/apis/stable.example.com/v1"


def request(method, target, content_type=""):
    path, _, query = target.partition("?")
    headers = [(b"content-type", content_type.encode())] if content_type else []
    scope = {"method": method, "path": path, "query_string": query.encode(), "headers": headers, "http_version": "2"}
    made = Request(scope, None)
    made.info = parse(method, path, made.query)
    return made


def observed(method, target, content_type="", code=200):
    """The labels of the one request counted, as a dict."""
    metrics = Metrics()
    RequestObserver(metrics, lambda *gvr: gvr in CRONTABS).request_done(request(method, target, content_type), code, 0.01, 10)
    (line,) = [line for line in metrics.exposition().decode().splitlines() if line.startswith("apiserver_request_total{")]
    labels, value = line[line.index("{") + 1 :].split("} ")
    assert float(value) == 1
    return {name: text.strip('"') for name, text in (pair.split("=", 1) for pair in labels.split(","))}


GVR = {"group": "stable.example.com", "version": "v1", "resource": "crontabs"}
NONE = {"group": "", "version": "", "resource": ""}
REQUESTS = {
    "get": ("GET", f"{BASE}/namespaces/n/crontabs/a", "", GVR | {"verb": "GET", "scope": "resource", "subresource": ""}),
    "head": ("HEAD", f"{BASE}/namespaces/n/crontabs/a", "", GVR | {"verb": "GET"}),
    "list in a namespace": ("GET", f"{BASE}/namespaces/n/crontabs", "", GVR | {"verb": "LIST", "scope": "namespace"}),
    "list everywhere": ("GET", f"{BASE}/crontabs", "", GVR | {"verb": "LIST", "scope": "cluster"}),
    "watch": ("GET", f"{BASE}/crontabs?watch=true", "", GVR | {"verb": "WATCH", "scope": "cluster"}),
    "create": ("POST", f"{BASE}/namespaces/n/crontabs", "", GVR | {"verb": "POST", "scope": "resource"}),
    "update": ("PUT", f"{BASE}/namespaces/n/crontabs/a/status", "", GVR | {"verb": "PUT", "subresource": "status"}),
    "patch": ("PATCH", f"{BASE}/namespaces/n/crontabs/a", "application/merge-patch+json", GVR | {"verb": "PATCH"}),
    "apply": ("PATCH", f"{BASE}/namespaces/n/crontabs/a", "application/apply-patch+yaml", GVR | {"verb": "APPLY"}),
    "delete": ("DELETE", f"{BASE}/namespaces/n/crontabs/a", "", GVR | {"verb": "DELETE"}),
    "dry run": ("POST", f"{BASE}/namespaces/n/crontabs?dryRun=All", "", GVR | {"dry_run": "All"}),
    "bad dry run": ("POST", f"{BASE}/namespaces/n/crontabs?dryRun=Some", "", GVR | {"dry_run": "invalid"}),
    "made-up subresource": ("GET", f"{BASE}/namespaces/n/crontabs/a/{'x' * 40}", "", GVR | {"subresource": "other"}),
    "made-up resource": ("GET", "/apis/made.up/v1/things", "", NONE | {"verb": "LIST", "subresource": ""}),
    "health": ("GET", "/livez", "", NONE | {"verb": "GET", "subresource": "/livez", "scope": ""}),
    "made-up path": ("GET", "/made/up", "", NONE | {"subresource": ""}),
    "made-up method": ("BREW", "/livez", "", NONE | {"verb": "other"}),
}


@pytest.mark.parametrize(("method", "target", "content_type", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_labels(method, target, content_type, expected):
    labels = observed(method, target, content_type)
    assert {name: labels[name] for name in expected} == expected
    assert (labels["component"], labels["code"]) == ("apiserver", "200")


def lines(metrics, start):
    return [line for line in metrics.exposition().decode().splitlines() if line.startswith(start)]


def test_observations_add_up():
    metrics = Metrics()
    for code in (200, 200, 404):
        metrics.observe("GET", "g", "v1", "r", "", "resource", code, 0.03, 2000)
    assert [line.rsplit(" ", 1)[1] for line in lines(metrics, "apiserver_request_total{")] == ["2.0", "1.0"]
    (count,) = lines(metrics, "apiserver_request_duration_seconds_count{")
    assert count.endswith(" 3.0")
    (sizes,) = lines(metrics, "apiserver_response_sizes_sum{")
    assert sizes.endswith(" 6000.0")
    assert not lines(metrics, "apiserver_request_created")


def test_writes_have_no_sizes():
    metrics = Metrics()
    metrics.observe("POST", "g", "v1", "r", "", "resource", 201, 0.03, 2000)
    assert not lines(metrics, "apiserver_response_sizes_sum{")


def test_observer_gauges():
    metrics = Metrics()
    observer = RequestObserver(metrics, lambda *gvr: gvr in CRONTABS)
    watch = request("GET", f"{BASE}/crontabs?watch=true")
    observer.long_running(watch, 1)
    observer.long_running(watch, 1)
    observer.long_running(watch, -1)
    observer.in_flight("mutating", 3)
    observer.in_flight("readOnly", 1)
    (gauge,) = lines(metrics, "apiserver_longrunning_requests{")
    assert 'verb="WATCH"' in gauge
    assert gauge.endswith(" 1.0")
    assert sorted(lines(metrics, "apiserver_current_inflight_requests{")) == [
        'apiserver_current_inflight_requests{request_kind="mutating"} 3.0',
        'apiserver_current_inflight_requests{request_kind="readOnly"} 1.0',
    ]


@pytest.mark.parametrize(("code", "terminated"), [(429, True), (504, True), (500, False), (200, False)])
def test_terminations(code, terminated):
    metrics = Metrics()
    RequestObserver(metrics, lambda *_: True).request_done(request("GET", f"{BASE}/crontabs"), code, 0.1, 0)
    assert bool(lines(metrics, "apiserver_request_terminations_total{")) is terminated


def test_a_request_that_failed_before_it_was_understood():
    metrics = Metrics()
    failed = request("GET", "/apis")
    del failed.info
    RequestObserver(metrics, lambda *_: True).request_done(failed, 500, 0.1, 0)
    assert len(lines(metrics, "apiserver_request_total{")) == 1


def test_watch_events():
    metrics = Metrics()
    watch = metrics.watch("g", "v1", "r")
    watch.sent(1, 100)
    metrics.watch("g", "v1", "r").sent(2, 6000)
    assert lines(metrics, "apiserver_watch_events_total{") == [
        'apiserver_watch_events_total{group="g",resource="r",version="v1"} 3.0'
    ]
    assert lines(metrics, "apiserver_watch_events_sizes_sum{")[0].endswith(" 3100.0")


def test_forget():
    metrics = Metrics()
    for resource in ("gone", "stays"):
        for verb, dry_run in (("GET", ""), ("POST", "All")):
            metrics.observe(verb, "g", "v1", resource, "", "resource", 200, 0.1, 10, dry_run)
        metrics.observe("GET", "g", "v1", resource, "", "resource", 200, 0.1, 10, "All")
        metrics.terminated("GET", "g", "v1", resource, "", "resource", 429)
        metrics.long_running("WATCH", "g", "v1", resource, "", "cluster").inc()
        metrics.watch("g", "v1", resource).sent(1, 10)
    metrics.observe("GET", "", "", "", "/version", "", 200, 0.1, 10)
    metrics.forget(lambda *resource: resource == ("g", "v1", "stays"))
    assert b'"gone"' not in metrics.exposition()
    assert b'"/version"' in metrics.exposition()
    assert b'"stays"' in metrics.exposition()
    metrics.observe("GET", "g", "v1", "gone", "", "resource", 200, 0.1, 10)
    assert b'"gone"' in metrics.exposition()


def test_a_version_is_forgotten_alone():
    metrics = Metrics()
    for version in ("v1", "v2"):
        metrics.observe("GET", "g", version, "r", "", "resource", 200, 0.1, 10)
    metrics.forget(lambda *resource: resource == ("g", "v2", "r"))
    (line,) = lines(metrics, "apiserver_request_total{")
    assert 'version="v2"' in line


def test_a_watch_that_outlives_its_resource():
    """Nothing stays counted, and nothing is counted below zero."""
    metrics, served = Metrics(), set(CRONTABS)
    observer = RequestObserver(metrics, lambda *gvr: gvr in served)
    watch = request("GET", f"{BASE}/crontabs?watch=true")
    observer.long_running(watch, 1)
    served.clear()
    metrics.forget(lambda *gvr: gvr in served)
    observer.long_running(watch, -1)
    assert lines(metrics, "apiserver_longrunning_requests{") == []


async def test_a_withdrawn_definition_leaves_no_series(server, client):
    for definition in (definitions.CRONTABS, definitions.WIDGETS):
        server.serve(definition)
    for path in (definitions.CRONTABS_PATH, definitions.WIDGETS_PATH):
        assert (await client.get(path)).status == 200
    assert b'resource="crontabs"' in server.engine.metrics.exposition()
    server.engine.definitions.remove(definitions.CRONTABS["metadata"]["name"])
    assert b'resource="crontabs"' not in server.engine.metrics.exposition()
    assert b'resource="widgets"' in server.engine.metrics.exposition()


def test_calls_of_conversion_webhooks():
    metrics = Metrics()
    metrics.conversion("crontabs.stable.example.com", "v1beta1", "v1", 0.003, "")
    metrics.conversion("crontabs.stable.example.com", "v1beta1", "v1", 0.1, "conversion_webhook_call_failure")
    lines = metrics.exposition().decode().splitlines()
    of = 'crd_name="crontabs.stable.example.com",from_version="v1beta1",succeeded="true",to_version="v1"'
    assert f"apiserver_crd_conversion_webhook_duration_seconds_count{{{of}}} 1.0" in lines
    assert 'apiserver_conversion_webhook_request_total{failure_type="",result="success"} 1.0' in lines
    failed = 'failure_type="conversion_webhook_call_failure",result="failure"'
    assert f"apiserver_conversion_webhook_request_total{{{failed}}} 1.0" in lines
    assert f"apiserver_conversion_webhook_duration_seconds_sum{{{failed}}} 0.1" in lines
    metrics.forget(lambda *gvr: False)
    assert "crontabs.stable.example.com" not in metrics.exposition().decode()


def test_migrations_are_forgotten_with_their_definitions():
    metrics = Metrics()
    metrics.migration("g", "v2", "r", 3, 7, 1)
    metrics.migration("g", "v2", "r", 2, 5, 0)
    told = lines(metrics, "aggserver_storage_migration_")
    assert [(line.partition("{")[0], line.rsplit(" ", 1)[1]) for line in told] == [
        ("aggserver_storage_migration_objects_total", "5.0"),
        ("aggserver_storage_migration_remaining_objects", "5.0"),
        ("aggserver_storage_migration_failing_objects", "0.0"),
    ]
    metrics.forget(lambda *resource: False)
    assert not lines(metrics, "aggserver_storage_migration_")


def test_indicators_leave_out_what_is_no_fault_of_the_server():
    metrics = Metrics()
    for seconds, foreign, dry_run in ((0.003, 0.0, ""), (0.03, 0.0, ""), (3.0, 2.5, ""), (9.0, 0.0, "All")):
        metrics.observe("POST", "g", "v1", "r", "", "resource", 201, seconds, 10, dry_run, foreign)
    start = "apiserver_request_sli_duration_seconds_"
    found = dict(line.rsplit(" ", 1) for line in lines(metrics, start))
    buckets = {name.split('le="')[1].split('"')[0]: float(value) for name, value in found.items() if "_bucket" in name}
    assert (buckets["0.05"], buckets["0.4"], buckets["0.6"], buckets["+Inf"]) == (2, 2, 3, 3)
    assert next(iter(buckets)) == "0.05"
    assert [float(value) for name, value in found.items() if "_sum" in name] == [pytest.approx(0.533)]
    metrics.forget(lambda *gvr: False)
    assert not lines(metrics, start + "count")


USERS = {
    "alice": "other",
    "alice@example.com": "email_id",
    "admin": "admin",
    "system:serviceaccount:kube-system:default": "system:serviceaccount:kube-system:default",
    "system:serviceaccount:kube-system:other": "other",
}


def test_names_of_users_do_not_become_labels(monkeypatch):
    monkeypatch.setattr("aggserver.monitoring.metrics._KNOWN_USERS", 2)
    metrics = Metrics()
    for name in USERS:
        metrics.authenticated("success", name, 0.1)
    metrics.authenticated("failure", "", 0.1)
    found = [line.split('"')[1] for line in lines(metrics, "authenticated_user_requests{")]
    assert sorted(found) == sorted(set(USERS.values()))
    assert lines(metrics, "authentication_attempts{") == [
        'authentication_attempts{result="success"} 5.0',
        'authentication_attempts{result="failure"} 1.0',
    ]


def test_a_response_that_was_broken_off_is_counted():
    metrics = Metrics()
    observer = RequestObserver(metrics, lambda *gvr: True)
    for size in (0, 200):  # the second one got the 504 as a response
        observer.request_done(request("GET", f"{BASE}/crontabs"), 504, 60.0, size)
    [line] = lines(metrics, "apiserver_request_aborts_total{")
    assert line.endswith(" 1.0")
    [line] = lines(metrics, "apiserver_request_terminations_total{")
    assert line.endswith(" 2.0")

"""Events: their members, the line of text, what is cut, and where requests come from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggserver.audit import events
from aggserver.audit.events import AuditRecord, Event
from aggserver.audit.policy import METADATA, REQUEST, REQUEST_RESPONSE, AuditConfig
from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes

BOB = UserInfo("bob", groups=("builders",))
ATTRIBUTES = Attributes(BOB, "create", "g.example.com", "v1", "things", "", "default", "", "/apis/g.example.com/v1/things")
RECEIVED, NOW = "2026-01-02T03:04:05.000006Z", 1767323046.5
OWNED = {
    "metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "managedFields": [{"manager": "m"}]},
    "spec": {"secret": "s"},
}
BARE = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}, "spec": {"secret": "s"}}


def record(level: int = METADATA, attributes: Attributes = ATTRIBUTES, *, bare: bool = False) -> AuditRecord:
    verdict = AuditConfig(level, without_managed_fields=bare)
    return AuditRecord(verdict, attributes, "id", "/apis?a=b", ("10.0.0.1",), "agent", RECEIVED)


def said(found: Event) -> dict[str, Any]:
    line = events.log_line(found)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    event: dict[str, Any] = json.loads(line)
    return event


def test_the_members_and_their_order() -> None:
    made = record(REQUEST_RESPONSE)
    made.object(OWNED)
    made.response(b'{"kind":"Thing"}\n')
    made.code = 201
    made.impersonated = UserInfo("eve").to_json()
    made.annotate("b", "2")
    made.annotate("a", "1")
    made.annotate("a", "3")
    event = said(made.event("ResponseComplete", NOW))
    assert list(event) == [
        *("kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user", "impersonatedUser", "sourceIPs"),
        *("userAgent", "objectRef", "responseStatus", "requestObject", "responseObject", "requestReceivedTimestamp"),
        *("stageTimestamp", "annotations"),
    ]
    assert event["user"] == {"username": "bob", "groups": ["builders"]}
    assert event["objectRef"] == {
        "resource": "things",
        "namespace": "default",
        "name": "n",
        "apiGroup": "g.example.com",
        "apiVersion": "v1",
        "uid": "u",
        "resourceVersion": "7",
    }
    assert (event["requestReceivedTimestamp"], event["stageTimestamp"]) == (RECEIVED, "2026-01-02T03:04:06.500000Z")
    assert list(event["annotations"].items()) == [("a", "1"), ("b", "2")]
    assert event["responseStatus"] == {"metadata": {}, "code": 201}


@pytest.mark.parametrize(("level", "has"), [(METADATA, []), (REQUEST, ["requestObject"]), (REQUEST_RESPONSE, ["requestObject"])])
def test_bodies_only_at_their_levels(level: int, has: list[str]) -> None:
    for is_patch in (False, True):
        made = record(level)
        if is_patch:
            made.patch(b'{"spec":{"secret":"s"}}')
        else:
            made.object(OWNED)
        event = said(made.event("ResponseComplete", NOW))
        assert [name for name in event if name.endswith("Object")] == has
        assert ("secret" in json.dumps(event)) == bool(has)


def test_without_managed_fields() -> None:
    made = record(REQUEST_RESPONSE, bare=True)
    made.object(OWNED)
    table = {"kind": "Table", "rows": [{"cells": [1], "object": OWNED}]}
    for body, shown in (
        (OWNED, BARE),
        ({"items": [OWNED]}, {"items": [BARE]}),
        (table, {"kind": "Table", "rows": [{"cells": [1], "object": BARE}]}),
    ):
        made.response(json.dumps(body).encode())
        event = said(made.event("ResponseComplete", NOW))
        assert (event["requestObject"], event["responseObject"]) == (BARE, shown)
    assert "managedFields" in OWNED["metadata"]  # type: ignore[operator]


def test_an_indented_body_stays_on_one_line() -> None:
    made = record(REQUEST_RESPONSE)
    made.response(json.dumps(OWNED, indent=2).encode())
    made.patch(b'{\n "a": 1}')
    event = said(made.event("ResponseComplete", NOW))
    assert (event["responseObject"], event["requestObject"]) == (OWNED, {"a": 1})


def test_what_is_no_json_is_not_kept() -> None:
    made = record(REQUEST)
    made.patch(b'{"a":')
    assert "requestObject" not in said(made.event("ResponseComplete", NOW))


def test_a_deprecated_version_is_told_at_the_end() -> None:
    made = record()
    made.deprecated = True
    assert "annotations" not in said(made.event("ResponseStarted", NOW))
    assert said(made.event("ResponseComplete", NOW))["annotations"] == {"k8s.io/deprecated": "true"}


def test_nobody_and_no_resource() -> None:
    made = record(attributes=Attributes(UserInfo(""), "get", path="/version"))
    event = said(made.event("RequestReceived", NOW))
    assert (event["user"], event["stageTimestamp"]) == ({}, RECEIVED)
    assert "objectRef" not in event
    assert "responseStatus" not in event


def test_a_line_of_text() -> None:
    made = record()
    line = events.text_line(made.event("RequestReceived", NOW)).decode()
    assert line == (
        f'{RECEIVED} AUDIT: id="id" stage="RequestReceived" ip="10.0.0.1" method="create" user="bob" groups="\\"builders\\"" '
        'as="<self>" asgroups="<lookup>" user-agent="agent" namespace="default" uri="/apis?a=b" response="<deferred>"\n'
    )
    made.code, made.impersonated = 201, UserInfo("eve", groups=("a", "b")).to_json()
    line = events.text_line(made.event("ResponseComplete", NOW)).decode()
    assert ' as="eve" asgroups="\\"a\\",\\"b\\"" ' in line
    assert line.endswith('response="201"\n')


def test_a_list_of_events() -> None:
    found = json.loads(events.event_list([record().event("RequestReceived", NOW)] * 2))
    assert (found["kind"], found["apiVersion"], len(found["items"])) == ("EventList", "audit.k8s.io/v1", 2)
    assert list(found["items"][0])[:2] == ["level", "auditID"]


def test_truncated() -> None:
    made = record(REQUEST_RESPONSE)
    made.object(OWNED)
    made.response(b'{"data":"%s"}' % (b"x" * 1000))
    made.annotate("z", "1")
    event = made.event("ResponseComplete", NOW)
    assert events.truncated(event, len(events.log_line(event))) is event
    short = events.truncated(event, len(events.log_line(event)) - 1)
    assert short is not None
    cut = said(short)
    assert cut["annotations"] == {"audit.k8s.io/truncated": "true", "z": "1"}
    assert not any(name.endswith("Object") for name in cut)
    assert events.truncated(event, 100) is None
    assert events.truncated(record().event("ResponseComplete", NOW), 100) is None


# name: ((X-Forwarded-For, X-Real-Ip, the connection's), addresses)
SOURCES = {
    "a connection": (("", "", "10.0.0.1"), ("10.0.0.1",)),
    "a proxy": (("10.0.0.9", "", "10.0.0.1"), ("10.0.0.9", "10.0.0.1")),
    "several": (("10.0.0.9, 10.0.0.8", "", "10.0.0.1"), ("10.0.0.9", "10.0.0.8", "10.0.0.1")),
    "the last again": (("10.0.0.9,10.0.0.1", "", "10.0.0.1"), ("10.0.0.9", "10.0.0.1")),
    "the first again": (("10.0.0.1,10.0.0.9", "", "10.0.0.1"), ("10.0.0.1", "10.0.0.9", "10.0.0.1")),
    "a real address": (("", "10.0.0.7", "10.0.0.1"), ("10.0.0.7", "10.0.0.1")),
    "one that is there": (("10.0.0.7,10.0.0.9", "10.0.0.7", "10.0.0.1"), ("10.0.0.7", "10.0.0.9", "10.0.0.1")),
    "no addresses": (("no, 1.2.3, 300.1.1.1, ", "me", "10.0.0.1"), ("10.0.0.1",)),
    "zeros": (("010.000.0.09", "", ""), ("10.0.0.9",)),
    "IPv6": (("2001:DB8:0::1, fe80::1%eth0", "", "::1"), ("2001:db8::1", "::1")),
    "IPv4 in IPv6": (("::ffff:10.0.0.1", "", "10.0.0.1"), ("10.0.0.1",)),
    "nothing": (("", "", ""), ()),
}


@pytest.mark.parametrize("case", SOURCES)
def test_where_requests_come_from(case: str) -> None:
    given, found = SOURCES[case]
    assert events.source_ips(*given) == found


def test_long_agents_are_cut() -> None:
    assert events.user_agent(b"x" * 1024) == "x" * 1024
    assert events.user_agent(b"x" * 1025) == "x" * 1024 + "...TRUNCATED"
    assert events.user_agent(b"\xff") == "\ufffd"

"""Actions: who may call them, their bodies, what they answer, dry runs, and clients that go."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from aggserver.meta.json_types import JSONObject
from aggserver.resources.app import App
from aggserver.resources.errors import (
    AnswerError,
    Conflict,
    DeclarationError,
    FieldError,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
)
from aggserver.resources.requests import Request
from tests.fakes.clock import settled, until
from tests.fakes.server import ALICE
from tests.resources.site_types import OldSite, Site, down, up
from tests.resources.stored_apps import OLD_SITES, SITES, serving, site, stored

APPROVE = f"{SITES}/web/approve"


@dataclass
class Approval:
    comment: str
    score: int = 1


def with_action(function: Callable[..., Any], **more: Any) -> App[None]:
    app: App[None] = App()
    sites = stored(app)
    sites.version("v1beta1", OldSite, up=up, down=down)
    sites.action("approve", **more)(function)
    return app


async def test_it_is_a_create_of_the_subresource() -> None:
    app = with_action(lambda request, obj: None)
    async with serving(app) as running:
        await running.admin.post(SITES, site())
        refused = await running.alice.post(APPROVE, {})
        assert refused.status == 403
        asked = running.server.rules.asked[-1]
        assert (asked.verb, asked.resource, asked.subresource, asked.name) == ("create", "sites", "approve", "web")
        running.allow(("get", "sites"), ("update", "sites"))
        assert (await running.alice.post(APPROVE, {})).status == 403
        running.allow(("create", "sites"))
        assert (await running.alice.post(APPROVE, {})).status == 201


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_other_methods(method: str) -> None:
    app = with_action(lambda request, obj: None)
    async with serving(app) as running:
        await running.admin.post(SITES, site())
        body = {} if method in ("PUT", "PATCH") else None
        assert (await running.admin.request(method, APPROVE, body, content_type="application/merge-patch+json")).status == 405


async def test_an_object_that_is_not_there() -> None:
    app = with_action(lambda request, obj: None)
    async with serving(app) as running:
        answer = await running.admin.post(APPROVE, {})
        assert answer.status == 404
        assert answer.message == 'sites.paas.example.com "web" not found'


# --- bodies ---


def typed(request: Request[None], obj: Site, body: Approval) -> JSONObject:
    return {"got": f"{body.comment} {body.score}"}


def untyped(request: Request[None], obj: Site, body: dict[str, Any]) -> JSONObject:
    return {"got": body}


BODIES: dict[str, tuple[Callable[..., Any], Any, int, str]] = {
    "typed": (typed, {"comment": "fine", "score": 3}, 201, "fine 3"),
    "its defaults": (typed, {"comment": "fine"}, 201, "fine 1"),
    "a wrong type": (typed, {"comment": 5}, 422, "comment"),
    "a missing field": (typed, {}, 422, "comment: Required value"),
    "no body": (typed, None, 422, "comment: Required value"),
    "no object": (typed, [1], 400, "must be a JSON object"),
    "no JSON": (typed, b"{", 400, ""),
    "any JSON": (untyped, {"a": [1]}, 201, '{"a":[1]}'),
}


@pytest.mark.parametrize("name", BODIES)
async def test_bodies(name: str) -> None:
    function, body, code, text = BODIES[name]
    async with serving(with_action(function)) as running:
        await running.admin.post(SITES, site())
        answer = await running.admin.post(APPROVE, body)
        assert answer.status == code, answer.body
        assert text in answer.body.decode().replace('\\"', '"')


async def test_unknown_fields_of_a_body_are_a_warning() -> None:
    async with serving(with_action(typed)) as running:
        await running.admin.post(SITES, site())
        answer = await running.admin.post(APPROVE, {"comment": "fine", "scroe": 3})
        assert answer.json() == {"got": "fine 1"}
        assert 'unknown field \\"scroe\\"' in answer.header("warning")


# --- answers ---


def _renamed(request: Request[None], obj: Site) -> Site:
    obj.spec.replicas = 77
    return obj


@dataclass
class Receipt:
    approved_by: str
    at: datetime


def _receipt(request: Request[None], obj: Site) -> Receipt | None:
    return Receipt(request.user.name, datetime(2026, 1, 2, tzinfo=UTC)) if obj.spec.replicas else None


ANSWERS: dict[str, tuple[Callable[..., Any], Callable[[Any], bool]]] = {
    "None": (lambda request, obj: None, lambda answer: answer["kind"] == "Status" and answer["status"] == "Success"),
    "a dict": (lambda request, obj: {"a": 1}, lambda answer: answer == {"a": 1}),
    "a mapping": (lambda request, obj: MappingProxyType({"a": 1}), lambda answer: answer == {"a": 1}),
    "another class": (_receipt, lambda answer: answer == {"approvedBy": "admin", "at": "2026-01-02T00:00:00Z"}),
    "the object": (
        _renamed,
        lambda answer: (
            answer["kind"] == "Site"
            and answer["apiVersion"] == "paas.example.com/v1"
            and answer["spec"]["replicas"] == 77
            and answer["metadata"]["uid"] != ""
        ),
    ),
}


@pytest.mark.parametrize("path", [SITES, OLD_SITES])
@pytest.mark.parametrize("name", ANSWERS)
async def test_answers(name: str, path: str) -> None:
    function, is_right = ANSWERS[name]
    async with serving(with_action(function)) as running:
        await running.admin.post(SITES, site())
        answer = await running.admin.post(f"{path}/web/approve", {})
        assert answer.status == 201
        assert is_right(answer.json()), answer.body
        assert (await running.admin.get(f"{SITES}/web")).json()["spec"]["replicas"] == 1


def raising(error: Exception) -> Callable[..., Any]:
    async def act(request: Request[None], obj: Site) -> None:
        raise error

    return act


ERRORS: dict[str, tuple[Callable[..., Any], int, str]] = {
    "Conflict": (raising(Conflict("not now")), 409, 'Operation cannot be fulfilled on sites.paas.example.com "web": not now'),
    "Forbidden": (raising(Forbidden("not you")), 403, 'sites.paas.example.com "web" is forbidden: not you'),
    "Invalid": (raising(Invalid(FieldError(".comment", "is rude", "x"))), 422, 'comment: Invalid value: "x": is rude'),
    "NotFound": (raising(NotFound()), 404, 'sites.paas.example.com "web" not found'),
    "Unavailable": (raising(Unavailable("later", 3)), 503, "later"),
    "its own error": (raising(KeyError("secret")), 500, "Internal error occurred"),
    "what is no JSON": (lambda request, obj: object(), 500, "Internal error occurred"),
    "a member that is no JSON": (lambda request, obj: {"a": object()}, 500, "Internal error occurred"),
}


@pytest.mark.parametrize("name", ERRORS)
async def test_errors(name: str, caplog: pytest.LogCaptureFixture) -> None:
    function, code, text = ERRORS[name]
    with caplog.at_level(logging.ERROR):
        async with serving(with_action(function)) as running:
            await running.admin.post(SITES, site())
            answer = await running.admin.post(APPROVE, {})
            assert answer.status == code, answer.body
            assert text in answer.message
            assert b"secret" not in answer.body
    assert any(record.exc_info for record in caplog.records) == (code == 500)


def _bare(request: Request[None], obj: Site):  # type: ignore[no-untyped-def]
    return Receipt("me", datetime(2026, 1, 2, tzinfo=UTC))


def _without_a_zone(request: Request[None], obj: Site) -> Receipt:
    return Receipt("me", datetime(2026, 1, 2))  # noqa: DTZ001


def _half(request: Request[None], obj: Site) -> Site:
    obj.spec = None  # type: ignore[assignment]
    return obj


UNFIT: dict[str, tuple[Callable[..., Any], str]] = {
    "a class that is not told of": (_bare, r"_bare returned a Receipt: it must be a Site, a dict or None, or of the class that"),
    "a time without a zone": (_without_a_zone, r"_without_a_zone returned a Receipt that can't be an answer: Receipt\.at: "),
    "half an object": (_half, r"_half returned a Site that can't be an answer: Site\.spec"),
}


@pytest.mark.parametrize("name", UNFIT)
async def test_answers_that_are_none(name: str, caplog: pytest.LogCaptureFixture) -> None:
    function, says = UNFIT[name]
    with caplog.at_level(logging.ERROR):
        async with serving(with_action(function)) as running:
            await running.admin.post(SITES, site())
            assert (await running.admin.post(APPROVE, {})).status == 500
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], AnswerError)
    assert re.search(says, str(record.exc_info[1]))


def _listed(request: Request[None], obj: Site) -> list[Receipt]:
    return []


def _either(request: Request[None], obj: Site) -> Receipt | Approval:
    return Approval("x")


@pytest.mark.parametrize("function", [_listed, _either])
def test_answers_that_can_be_none_are_refused_at_the_start(function: Callable[..., Any]) -> None:
    says = r"test_actions\.py:\d+: sites\.paas\.example\.com/approve returns .*: an answer is the object, one other class, a dict"
    with pytest.raises(DeclarationError, match=says.replace("test_actions", "stored_apps")):
        with_action(function)


# --- dry runs, and clients that go ---


async def test_a_dry_run_is_refused_unless_the_function_knows_it() -> None:
    called: list[bool] = []

    def act(request: Request[None], obj: Site) -> None:
        called.append(request.dry_run)

    async with serving(with_action(act)) as running:
        await running.admin.post(SITES, site())
        answer = await running.admin.post(f"{APPROVE}?dryRun=All", {})
        assert answer.status == 400
        assert answer.message == "dry run is not supported for sites.paas.example.com/approve"
    assert called == []
    async with serving(with_action(act, dry_run=True)) as running:
        await running.admin.post(SITES, site())
        assert (await running.admin.post(f"{APPROVE}?dryRun=All", {})).status == 201
        assert (await running.admin.post(APPROVE, {})).status == 201
    assert called == [True, False]


async def test_it_runs_to_its_end_though_the_client_is_gone() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def act(request: Request[None], obj: Site) -> None:
        begun.set()
        await go.wait()
        done.set()

    async with serving(with_action(act)) as running:
        await running.admin.post(SITES, site())
        exchange = running.admin.send("POST", APPROVE, {})
        await begun.wait()
        exchange.task.cancel()
        await asyncio.gather(exchange.task, return_exceptions=True)
        assert exchange.task.done()
        go.set()
        await until(done.is_set)


async def test_the_function_knows_who_asks() -> None:
    seen: list[Any] = []

    def act(request: Request[None], obj: Site) -> None:
        request.warn("careful")
        seen.append((request.user.name, request.namespace, request.query["x"], request.audit_id, obj.metadata.name))

    async with serving(with_action(act)) as running:
        await running.admin.post(SITES, site())
        running.allow(("create", "sites"))
        answer = await running.server.client(ALICE).post(f"{APPROVE}?x=5", {})
        assert answer.warnings == ['299 - "careful"']
    assert seen == [("alice", "default", "5", "audit-1", "web")]


async def test_it_takes_no_longer_than_the_app_allows() -> None:
    async def act(request: Request[None], obj: Site) -> None:
        await asyncio.Event().wait()

    app: App[None] = App(deadline=0.001)
    stored(app).action("approve")(act)
    async with serving(app) as running:
        await running.admin.post(SITES, site())
        assert (await running.admin.post(APPROVE, {})).status == 504
    await settled()

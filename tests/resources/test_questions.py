"""A resource with a `create` alone: its objects are questions, which its function answers, and which are not kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from aggserver import App, FieldError, Forbidden, Invalid, Metadata, Request
from aggserver.resources.errors import DeclarationError
from aggserver.resources.virtual import Virtual
from tests.resources.stored_apps import serving

PATH = "/apis/paas.example.com/v1/namespaces/default/quotes"


@dataclass
class QuoteSpec:
    plan: str
    sites: int = 1


@dataclass
class QuoteStatus:
    euros: int = 0


@dataclass
class Quote:
    metadata: Metadata
    spec: QuoteSpec
    status: QuoteStatus = field(default_factory=QuoteStatus)


def question(name: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name} if name else {}
    return {"apiVersion": "paas.example.com/v1", "kind": "Quote", "metadata": metadata, "spec": {"plan": "small", **spec}}


def quoting(answer: Callable[[Request[None], Quote], Any], **more: Any) -> App[None]:
    app: App[None] = App()
    quotes = app.virtual("paas.example.com/v1", Quote)
    quotes.create(**more)(answer) if more else quotes.create(answer)
    return app


def price(request: Request[None], asked: Quote) -> Quote:
    asked.status = QuoteStatus(10 * asked.spec.sites)
    return asked


@pytest.mark.parametrize("name", ["", "mine"])
async def test_the_answer(name: str) -> None:
    async with serving(quoting(price)) as running:
        answer = await running.admin.post(PATH, question(name, sites=3))
        assert answer.status == 201
        made = answer.json()
        assert list(made) == ["kind", "apiVersion", "metadata", "spec", "status"]
        assert (made["kind"], made["apiVersion"]) == ("Quote", "paas.example.com/v1")
        assert (made["spec"], made["status"]) == ({"plan": "small", "sites": 3}, {"euros": 30})
        assert made["metadata"] == {**({"name": name} if name else {}), "namespace": "default"}


async def test_there_is_no_other_verb() -> None:
    async with serving(quoting(price)) as running:
        found = (await running.admin.get("/apis/paas.example.com/v1")).json()
        assert found["resources"][0]["verbs"] == ["create"]
        assert (await running.admin.post(PATH, question("mine"))).status == 201
        for method, target in (("GET", PATH), ("GET", f"{PATH}/mine"), ("DELETE", f"{PATH}/mine"), ("DELETE", PATH)):
            assert (await running.admin.request(method, target)).status == 405, (method, target)


async def test_what_the_schema_refuses_is_not_asked() -> None:
    asked: list[Quote] = []
    async with serving(quoting(lambda request, new: asked.append(new))) as running:
        answer = await running.admin.post(PATH, question(sites="many"))
        assert answer.status == 422
        assert "spec.sites" in answer.message
        other = {**question(), "metadata": {"name": "Not A Name"}}
        assert (await running.admin.post(PATH, other)).status == 422
        labelled = {**question(), "metadata": {"labels": {"a": "b"}}}
        assert "is not kept" in (await running.admin.post(PATH, labelled)).message
    assert asked == []


async def test_errors_of_the_function(caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: Request[None], asked: Quote) -> Any:
        if asked.spec.plan == "odd":
            raise Invalid(FieldError(".spec.plan", "is no plan", "odd"))
        if asked.spec.plan == "secret":
            raise Forbidden("not for you")
        if asked.spec.plan == "none":
            return None
        raise KeyError("inside")

    async with serving(quoting(answer)) as running:
        with caplog.at_level(logging.ERROR, logger="aggserver.resources"):
            found = {plan: await running.admin.post(PATH, question(plan=plan)) for plan in ("odd", "secret", "none", "other")}
    assert {plan: answer.status for plan, answer in found.items()} == {"odd": 422, "secret": 403, "none": 500, "other": 500}
    assert "spec.plan" in found["odd"].message
    assert "inside" not in found["other"].message
    assert "returned no object, which is the answer" in caplog.text


@pytest.mark.parametrize(("more", "status"), [({}, 400), ({"dry_run": True}, 201)], ids=["undeclared", "declared"])
async def test_dry_run(more: dict[str, bool], status: int) -> None:
    seen: list[bool] = []

    def answer(request: Request[None], asked: Quote) -> Quote:
        seen.append(request.dry_run)
        return asked

    async with serving(quoting(answer, **more)) as running:
        assert (await running.admin.post(f"{PATH}?dryRun=All", question())).status == status
    assert seen == [True] * (status == 201)


async def test_rbac_and_the_namespace() -> None:
    async with serving(quoting(price)) as running:
        assert (await running.alice.post(PATH, question())).status == 403
        running.allow(("create", "quotes"))
        assert (await running.alice.post(PATH, question())).status == 201
        elsewhere = {**question(), "metadata": {"namespace": "other"}}
        assert (await running.alice.post(PATH, elsewhere)).status == 400


def _delete(quotes: Virtual[None, Quote]) -> None:
    quotes.delete(lambda request, old: None)


def _act(quotes: Virtual[None, Quote]) -> None:
    quotes.action("approve")(lambda request, obj: None)


@pytest.mark.parametrize(("more", "what"), [(_delete, "delete"), (_act, "approve")], ids=["delete", "action"])
async def test_what_else_needs_objects_that_are_kept(more: Callable[[Virtual[None, Quote]], None], what: str) -> None:
    app = quoting(price)
    (quotes,) = app.resources.values()
    assert isinstance(quotes, Virtual)
    more(quotes)
    with pytest.raises(DeclarationError, match=f"has neither a list nor a get function, which {what} need"):
        async with serving(app):
            pass

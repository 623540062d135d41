"""Functions that can't be called as they will be, and parameters of another type: refused when they are declared."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from aggserver.resources.app import App
from aggserver.resources.errors import DeclarationError
from tests.resources.site_types import OldSite, Site, down, up

API = "paas.example.com/v1"


def of_virtual(verb: str, function: Any) -> Callable[[App[None]], Any]:
    return lambda app: getattr(app.virtual(API, Site), verb)(function)


def of_stored(hook: str, function: Any) -> Callable[[App[None]], Any]:
    return lambda app: getattr(app.stored(API, Site), hook)(function)


def none() -> None: ...
def one(a: Any) -> None: ...
def two(a: Any, b: Any) -> None: ...
def three(a: Any, b: Any, c: Any) -> None: ...
def four(a: Any, b: Any, c: Any, d: Any) -> None: ...
async def later(a: Any) -> None: ...
async def later_two(a: Any, b: Any) -> None: ...


REFUSED: dict[str, tuple[Callable[[App[Any]], Any], str]] = {
    "list": (
        of_virtual("list", none),
        r"none\(\) can't be the list function of sites\.paas\.example\.com: .* called with \(request\)",
    ),
    "get": (of_virtual("get", three), r"three\(a, b, c\) can't be the get function .* called with \(request, name\)"),
    "create": (of_virtual("create", one), r"one\(a\) can't be the create function .* called with \(request, new\)"),
    "update": (of_virtual("update", two), r"two\(a, b\) can't be the update function .* called with \(request, new, old\)"),
    "delete": (of_virtual("delete", one), r"one\(a\) can't be the delete function .* called with \(request, old\)"),
    "feed": (of_virtual("feed", two), r"two\(a, b\) can't be the feed function .* called with \(state\)"),
    "watch": (of_virtual("watch", two), r"two\(a, b\) can't be the watch function .* called with \(request\)"),
    "watch without yield": (of_virtual("watch", later), "later can't be the watch function .* with `yield`, and not a coroutine"),
    "feed without yield": (of_virtual("feed", later), "later can't be the feed function .* with `yield`, and not a coroutine"),
    "visible": (of_virtual("visible", one), r"called with \(request, object\)"),
    "no function": (of_virtual("list", [1]), r"the list function of sites\.paas\.example\.com is a function, not list"),
    "default": (of_stored("default", two), r"two\(a, b\) can't be a default hook: it is called with \(request, new, old\)"),
    "validate": (of_stored("validate", one), r"one\(a\) can't be a validate hook"),
    "authorize": (of_stored("authorize", three), r"three\(a, b, c\) can't be an authorize hook: .* \(request, object\)"),
    "action": (lambda app: app.stored(API, Site).action("go")(one), r"the action go of .* called with \(request, object\)"),
    "action of four": (lambda app: app.stored(API, Site).action("go")(four), r"called with \(request, object, body\)"),
    "action without a name": (
        lambda app: app.stored(API, Site).action(two),
        r'a name is missing: write @handle\.action\("name"\)',
    ),  # type: ignore[arg-type]
    "stream": (lambda app: app.stored(API, Site).stream("log")(one), r"the stream log of .* called with \(request, object\)"),
    "stream without yield": (
        lambda app: app.stored(API, Site).stream("log")(later_two),
        "later_two can't be the stream log .* `yield`",
    ),
    "stream without a name": (lambda app: app.stored(API, Site).stream(two), "a name is missing"),  # type: ignore[arg-type]
    "up": (lambda app: app.stored(API, Site).version("v2", OldSite, up=two, down=down), r"can't be `up` of version v2"),  # type: ignore[arg-type]
    "async down": (lambda app: app.stored(API, Site).version("v2", OldSite, up=up, down=later), "version v2 can't be async"),  # type: ignore[arg-type]
    "loses": (lambda app: app.stored(API, Site).version("v2", OldSite, up=up, down=down, loses=".a"), r"loses=\['\.a'\]"),
    "task": (lambda app: app.task(later_two), r"later_two\(a, b\) can't be a task: it is called with \(state\)"),  # type: ignore[arg-type]
    "external metric": (lambda app: app.external_metric("a")(none), r"the external metric a: it is called with \(request\)"),  # type: ignore[arg-type]
    "external metric without a name": (lambda app: app.external_metric(one), r"write @app\.external_metric\("),  # type: ignore[arg-type]
    "name of a metric": (lambda app: app.external_metric("a/b"), "'a/b' can't be the name of a metric"),
    "custom metric": (lambda app: app.custom_metric("pods", "a")(two), r"the metric a of pods: it is called with \(request\)"),  # type: ignore[arg-type]
    "nodes": (lambda app: app.node_metrics(none), r"can't be the node_metrics function"),  # type: ignore[arg-type]
    "group": (lambda app: app.stored("v1", Site), "'v1' is no `group/version`"),
    "poll": (lambda app: app.virtual(API, Site, poll="3"), "poll is a number above 0, not '3'"),  # type: ignore[call-overload]
    "no poll": (lambda app: app.virtual(API, Site, poll=0), "poll is a number above 0, not 0"),
    "keeps": (lambda app: app.virtual(API, Site, keeps="labels"), "keeps is 'metadata', 'sidecar' or nothing, not 'labels'"),  # type: ignore[call-overload]
    "columns": (lambda app: app.stored(API, Site, columns=[".spec"]), "columns is a dict"),  # type: ignore[arg-type]
    "a column of nothing": (
        lambda app: app.stored(API, Site, columns={"Size": ".spec.size.x"}),
        r"the column Size shows \.spec\.size\.x, and there is no \.spec\.size",
    ),
    "short names": (lambda app: app.stored(API, Site, short_names="si"), r"short_names is a list: write short_names=\['si'\]"),
    "selectable": (lambda app: app.stored(API, Site, selectable=".spec.image"), "selectable is a list"),
    "threads": (lambda app: App(threads=0), "threads is a number above 0, not 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    declare, says = REFUSED[name]
    with pytest.raises(DeclarationError, match=rf"^(test_signatures|stored_apps|site_types)\.py:\d+: .*{says}"):
        declare(App())


def of_more(request: Any, *more: Any, flag: bool = False) -> list[Any]:
    return []


class Answering:
    def __call__(self, request: Any) -> list[Any]:
        return []

    def method(self, request: Any, name: str) -> None: ...


def test_what_can_be_called_is_not_refused() -> None:
    app: App[None] = App()
    sites = app.virtual(
        API, Site, columns={"Age": ".metadata.creationTimestamp", "Image": "spec.image", "First": ".spec.image[0]"}, poll=1.5
    )
    sites.list(Answering())
    sites.get(Answering().method)
    sites.create(of_more)
    sites.update(functools.partial(four, 1))
    sites.delete(lambda request, old: None)
    sites.visible(bool)  # one of C, which tells nothing of its parameters, or enough


# --- lifespans ---


async def bare() -> AsyncIterator[None]:
    yield


@contextmanager
def plain() -> Iterator[None]:
    yield


@asynccontextmanager
async def right() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def with_a_parameter(url: str) -> AsyncIterator[None]:
    yield


LIFESPANS: dict[str, tuple[Any, str]] = {
    "not decorated": (bare, "bare can't be a lifespan: write @asynccontextmanager above"),
    "plain": (plain, "plain can't be a lifespan: write @asynccontextmanager above"),
    "called": (right(), r"a lifespan is a function: write App\(name\), without calling it"),
    "with a parameter": (with_a_parameter, r"with_a_parameter\(url\) can't be a lifespan: it is called with \(\)"),
    "a number": (5, "a lifespan is a function, not int"),
}


@pytest.mark.parametrize("name", LIFESPANS)
def test_lifespans(name: str) -> None:
    given, says = LIFESPANS[name]
    with pytest.raises(DeclarationError, match=rf"^test_signatures\.py:\d+: {says}"):
        App(given)


def test_a_lifespan_with_its_parameters() -> None:
    assert App(right).lifespan is right
    App(functools.partial(with_a_parameter, "url"))

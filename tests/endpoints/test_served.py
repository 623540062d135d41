"""`Served`: what clients are told at once, and the scopes that handlers get, which are made when they are first asked for."""

from __future__ import annotations

import pytest

from aggserver.admission.chain import Chain
from aggserver.endpoints.served import Endpoint, Served
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published

INFO = ResourceInfo("g", "v1", "things", "Thing", "ThingList", namespaced=True)
THINGS = APIResource(
    INFO,
    ("get", "list"),
    subresources=(
        APISubresource("finalize", "Thing", ("update",)),
        APISubresource("scale", "Scale", ("get",), "autoscaling", "v1"),
        APISubresource("unanswered", "Thing", ("get",)),
    ),
)


def drop_odd(obj: JSONObject) -> list[str]:
    return ["odd"] if obj.pop("odd", None) else []


class Endpoints:
    """Those of THINGS. asked: for which the server has asked, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, subresource: str) -> Endpoint | None:
        self.asked.append(subresource)
        return None if subresource == "unanswered" else Endpoint.of_type("g/v1.Thing", object(), drop_odd)


def test_what_is_told_needs_no_endpoint() -> None:
    endpoints = Endpoints()
    things = Served(Published(THINGS), endpoints, Chain())
    assert (things.info, things.resource, things.published.info) == (INFO, THINGS, INFO)
    assert endpoints.asked == []


def test_a_scope_is_made_once() -> None:
    endpoints = Endpoints()
    things = Served(Published(THINGS), endpoints, Chain())
    assert things.scope("") is things.scope("")
    assert endpoints.asked == [""]


def test_only_listed_subresources_are_asked_for() -> None:
    endpoints = Endpoints()
    things = Served(Published(THINGS), endpoints, Chain())
    assert [things.scope(name) for name in ("unanswered", "unknown", "status")] == [None, None, None]
    assert endpoints.asked == ["unanswered"]


@pytest.mark.parametrize(
    ("subresource", "kind", "object_version", "verbs"),
    [
        ("", "Thing", "g/v1", {"get", "list"}),
        ("finalize", "Thing", "g/v1", {"update"}),
        ("scale", "Scale", "autoscaling/v1", {"get"}),
    ],
)
def test_a_scope_has_what_discovery_lists(subresource: str, kind: str, object_version: str, verbs: set[str]) -> None:
    scope = Served(Published(THINGS), Endpoints(), Chain()).scope(subresource)
    assert scope is not None
    assert (scope.subresource, scope.kind, scope.object_version, scope.verbs) == (subresource, kind, object_version, verbs)


def test_verbs_that_discovery_does_not_list() -> None:
    listed = APIResource(INFO, ("get",))
    endpoint = Endpoint(object(), drop_odd, verbs=("list", "update"))
    things = Served(Published(THINGS), {"": endpoint}.get, Chain(), listed=listed)
    scope = things.scope("")
    assert scope is not None
    assert (scope.verbs, things.resource.verbs, things.published.resource.verbs) == (
        {"list", "update"},
        ("get",),
        ("get", "list"),
    )


@pytest.mark.parametrize("type_name", ["", "g/v1.Thing"])
def test_what_has_a_type_is_built_in(type_name: str) -> None:
    things = Served(Published(THINGS, type_name=type_name), Endpoints(), Chain())
    scope = things.scope("")
    assert scope is not None
    assert scope.built_in is things.built_in is bool(type_name)


def test_conform_of_a_type() -> None:
    conform = Endpoint.of_type("g/v1.Thing", object(), drop_odd).conform
    obj = {"kind": "Thing", "apiVersion": "g/v1", "metadata": {"name": "a", "odd": 1}, "odd": 1}
    assert conform(obj) == ["metadata.odd", "odd"]
    assert obj == {"kind": "Thing", "apiVersion": "g/v1", "metadata": {"name": "a"}}
    with pytest.raises(StatusError) as refused:
        conform({"kind": "Other", "apiVersion": "g/v1", "metadata": {}})
    assert refused.value.message == 'Other in version "g/v1" cannot be handled as a Thing'

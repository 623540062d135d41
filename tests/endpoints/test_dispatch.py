"""Dispatch: which paths and methods reach a handler, and the responses to those that don't."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import ADMIN, LocalServer

GROUP = "/apis/stable.example.com"


@pytest.fixture(autouse=True)
async def made(server: LocalServer, client: Client) -> None:
    server.serve(CRONTABS)
    server.serve(WIDGETS)
    await client.post(CRONTABS_PATH, crontab())
    await client.post(WIDGETS_PATH, widget())


NOT_FOUND = [
    "/apis/other.example.com",
    "/apis/other.example.com/v1/crontabs",
    f"{GROUP}/v9/crontabs",
    f"{GROUP}/v2alpha1/crontabs",  # not served
    f"{GROUP}/v1/others",
    f"{GROUP}/v1/namespaces/default/widgets",  # cluster-scoped
    f"{GROUP}/v1/namespaces/default/widgets/one",
    f"{GROUP}/v1/crontabs/one",  # the namespace is missing
]


@pytest.mark.parametrize("path", NOT_FOUND)
async def test_page_not_found(client: Client, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.header("content-type") == "text/plain; charset=utf-8"
    assert answer.header("x-content-type-options") == "nosniff"


NO_ROUTE = [
    ("GET", "/api/v1/pods"),  # not served here
    ("GET", "/api/v2/namespaces"),
    ("POST", "/api/v1/namespaces/default/others"),
    ("DELETE", "/api/v1/namespaces/default/others/one"),
    ("GET", "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"),
    ("GET", "/apis/apiextensions.k8s.io/v1/namespaces/default/customresourcedefinitions"),
    ("GET", "/apis/apiextensions.k8s.io/v1/others"),
]


@pytest.mark.parametrize(("method", "path"), NO_ROUTE)
async def test_groups_with_built_in_kinds_answer_with_a_status(client: Client, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert (answer.status, answer.message) == (404, "the server could not find the requested resource")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH"])
async def test_only_lists_go_across_namespaces(client: Client, method: str) -> None:
    answer = await client.request(method, f"{GROUP}/v1/crontabs", crontab())
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize("subresource", ["pods", "exec"])
async def test_an_unknown_subresource_is_a_status(client: Client, subresource: str) -> None:
    answer = await client.get(f"{CRONTABS_PATH}/one/{subresource}")
    assert (answer.status, answer.message) == (404, 'crontabs.stable.example.com "one" not found')
    # This definition has no `/status`.
    assert (await client.get(f"{WIDGETS_PATH}/one/status")).message == 'widgets.stable.example.com "one" not found'


METHODS = {
    # method and path: verb
    ("POST", f"{CRONTABS_PATH}/one/status"): "create",
    ("DELETE", f"{CRONTABS_PATH}/one/status"): "delete",
    ("DELETE", f"{CRONTABS_PATH}/one/scale"): "delete",
    ("OPTIONS", CRONTABS_PATH): "",
}


@pytest.mark.parametrize(("method", "path"), METHODS)
async def test_method_not_allowed(client: Client, method: str, path: str) -> None:
    answer = await client.request(method, path, crontab() if method in ("POST", "PUT") else None)
    assert (answer.status, answer.json()["reason"]) == (405, "MethodNotAllowed")
    assert answer.message == f'{METHODS[method, path]} is not supported on resources of kind "crontabs.stable.example.com"'


_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NO_ROUTES = [
    ("GET", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ("HEAD", _DEFINITIONS),
    ("HEAD", f"{_DEFINITIONS}/crontabs.stable.example.com"),
    ("PUT", _DEFINITIONS),
    ("POST", f"{_DEFINITIONS}/crontabs.stable.example.com"),
    ("OPTIONS", "/api/v1/namespaces"),
]


@pytest.mark.parametrize(("method", "path"), NO_ROUTES)
async def test_kinds_of_the_servers_own_have_routes(client: Client, method: str, path: str) -> None:
    answer = await client.request(method, path, {} if method in ("POST", "PUT") else None)
    assert (answer.status, answer.header("content-length")) == (405, "197")


async def test_custom_resources_answer_to_head(client: Client) -> None:
    for path in (CRONTABS_PATH, f"{CRONTABS_PATH}/one"):
        answer = await client.request("HEAD", path)
        assert (answer.status, answer.body) == (200, b"")


async def test_what_follows_a_subresource_is_passed_over(client: Client) -> None:
    assert (await client.get(f"{CRONTABS_PATH}/one/status/more")).json()["kind"] == "CronTab"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_name_is_needed(client: Client, method: str) -> None:
    answer = await client.request(method, CRONTABS_PATH, crontab())
    assert (answer.status, answer.message) == (400, "name must be provided")


@pytest.mark.parametrize("path", ["/apis", "/apis/stable.example.com", "/openapi/v2", "/openapi/v3"])
async def test_documents_are_only_read(client: Client, path: str) -> None:
    assert (await client.get(path)).status == 200
    assert (await client.request("POST", path, {})).status == 405


async def test_edges(client: Client) -> None:
    assert (await client.get("/version")).json()["gitVersion"].startswith("v1.36")
    assert b"apiserver_" in (await client.get("/metrics")).body
    assert "/apis" in (await client.get("/")).json()["paths"]
    assert (await client.get("/nowhere")).status == 404


async def test_deprecation_warns_whatever_comes_of_it(client: Client) -> None:
    path = CRONTABS_PATH.replace("/v1/", "/v1beta1/")
    warning = '299 - "stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab"'
    for target, method in ((path, "GET"), (f"{path}/two", "GET"), (f"{path}/one", "OPTIONS")):
        assert (await client.request(method, target)).warnings == [warning]


async def test_what_the_authorizer_is_asked(server: LocalServer, client: Client) -> None:
    asked = {
        ("GET", f"{CRONTABS_PATH}?watch=1&labelSelector=a&timeoutSeconds=0"): ("watch", "crontabs", "", "default", "", "a"),
        ("GET", f"{CRONTABS_PATH}/one/status"): ("get", "crontabs", "status", "default", "one", ""),
        ("DELETE", f"{WIDGETS_PATH}?dryRun=All"): ("deletecollection", "widgets", "", "", "", ""),
        ("GET", "/api/v1/namespaces/default"): ("get", "namespaces", "", "default", "default", ""),
        ("GET", "/version"): ("get", "", "", "", "", ""),
    }
    for (method, target), wanted in asked.items():
        exchange = client.send(method, target)
        await exchange.start()
        exchange.disconnect()
        await exchange.task
        found = server.rules.asked[-1]
        assert (found.verb, found.resource, found.subresource, found.namespace, found.name, found.label_selector) == wanted
        assert found.user == ADMIN


# The request for each verb: method, and whether it names an object. Handlers reject the body, which shows that they were reached.
REQUESTS = {
    "get": ("GET", True),
    "list": ("GET", False),
    "watch": ("GET", False),
    "create": ("POST", False),
    "update": ("PUT", True),
    "patch": ("PATCH", True),
    "delete": ("DELETE", True),
    "deletecollection": ("DELETE", False),
}


NAMED = {verb for verb, (_, named) in REQUESTS.items() if named}


async def listed(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Every entry of every APIResourceList, with the path of its group-version."""
    versions = ["/api/v1"]
    for group in (await client.get("/apis")).json()["groups"]:
        versions += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    return [(version, entry) for version in versions for entry in (await client.get(version)).json()["resources"]]


def target(version: str, entry: dict[str, Any], *, named: bool) -> str:
    resource, _, subresource = entry["name"].partition("/")
    where = f"{version}/namespaces/default/{resource}" if entry["namespaced"] else f"{version}/{resource}"
    if subresource:
        return f"{where}/one/{subresource}"
    return f"{where}/one" if named else where


async def asked(client: Client, version: str, entry: dict[str, Any], verb: str) -> int:
    method, named = REQUESTS[verb]
    query = "?watch=1" if verb == "watch" else ""
    body, kind = (None if method == "GET" else b"{"), "application/merge-patch+json" if verb == "patch" else "application/json"
    exchange = client.send(method, target(version, entry, named=named) + query, body, content_type=kind)
    await exchange.start()
    exchange.disconnect()
    await exchange.task
    return exchange.status


async def test_what_is_listed_is_what_is_dispatched(client: Client) -> None:
    """Every verb on every resource that discovery lists: a verb is allowed if and only if it is listed."""
    seen = set()
    for version, entry in await listed(client):
        seen.add(entry["name"])
        # The path of a subresource always names an object, so a verb for collections becomes the one for objects.
        for verb in ("get", "create", "update", "patch", "delete") if "/" in entry["name"] else REQUESTS:
            status = await asked(client, version, entry, verb)
            # A resource without verbs for single objects has no such path: reviews are only created.
            named = REQUESTS[verb][1] and not NAMED & set(entry["verbs"])
            assert (status == (404 if named else 405)) == (verb not in entry["verbs"]), (version, entry["name"], verb, status)
    assert {"namespaces", "namespaces/finalize", "namespaces/status", "customresourcedefinitions/status"} <= seen
    assert {"crontabs", "crontabs/scale", "widgets", "selfsubjectrulesreviews", "selfsubjectreviews"} <= seen


async def test_no_namespace_is_deleted_with_the_others(client: Client) -> None:
    answer = await client.delete("/api/v1/namespaces")
    assert (answer.status, answer.message) == (405, "the server does not allow this method on the requested resource")
    for namespace in (await client.get("/api/v1/namespaces")).json()["items"]:
        assert namespace["status"] == {"phase": "Active"}


async def test_requests_for_a_deprecated_version_are_told_and_measured(client: Client) -> None:
    """Those without a handler, for an unknown subresource, are not measured."""
    path = f"{GROUP}/v1beta1/namespaces/default/crontabs"
    told = [(await client.get(each)).header("warning") for each in (path, CRONTABS_PATH)]
    assert told == ['299 - "stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab"', ""]
    absent = await client.get(f"{path}/absent/other")
    assert (absent.status, absent.header("warning")) == (404, told[0])
    lines = (await client.get("/metrics")).body.decode().splitlines()
    assert [line for line in lines if line.startswith("apiserver_requested_deprecated_apis{")] == [
        'apiserver_requested_deprecated_apis{group="stable.example.com",removed_release="",resource="crontabs",subresource="",'
        'version="v1beta1"} 1.0'
    ]


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 200),
        ("*/*", 200),
        ("text/html, application/json;q=0.5", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/vnd.kubernetes.protobuf", 406),
        ("application/*", 406),
        ("application/yaml", 406),
    ],
)
async def test_the_version_is_told_as_json(client: Client, accept: str, status: int) -> None:
    assert (await client.get("/version", headers={"accept": accept})).status == status

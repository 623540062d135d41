"""From paths and methods to handlers: what is there, what is not, and how that is said."""

from __future__ import annotations

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
    f"{GROUP}/v1/namespaces/default/widgets",  # for the whole cluster
    f"{GROUP}/v1/namespaces/default/widgets/one",
    f"{GROUP}/v1/crontabs/one",  # of which namespace?
    "/api/v1/pods",
    "/api/v2/namespaces",
]


@pytest.mark.parametrize("path", NOT_FOUND)
async def test_page_not_found(client: Client, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.header("content-type") == "text/plain; charset=utf-8"
    assert answer.header("x-content-type-options") == "nosniff"


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH"])
async def test_only_lists_go_across_namespaces(client: Client, method: str) -> None:
    answer = await client.request(method, f"{GROUP}/v1/crontabs", crontab())
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize("subresource", ["pods", "exec"])
async def test_an_unknown_subresource_is_a_status(client: Client, subresource: str) -> None:
    answer = await client.get(f"{CRONTABS_PATH}/one/{subresource}")
    assert (answer.status, answer.message) == (404, 'crontabs.stable.example.com "one" not found')
    # A definition without `/status` has none.
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
    ("PUT", "/apis/authentication.k8s.io/v1/selfsubjectreviews/x"),
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

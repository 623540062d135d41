from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from aggserver.endpoints.discovery import Discovery, matches_etag, page_not_found
from aggserver.endpoints.request import Request, Response
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIGroup, APIGroupVersion, APIResource
from aggserver.publish.models import Published

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def resource(name: str) -> APIResource:
    kind = name[:-1].title()
    return APIResource(ResourceInfo("", "", name, kind, f"{kind}List", namespaced=True), ("get", "list"), singular=name[:-1])


def group(name: str, *versions: str) -> APIGroup:
    return APIGroup(name, tuple(APIGroupVersion(name, version, (resource("things"),)) for version in versions))


class FakeCatalog:
    def __init__(self, *groups: APIGroup) -> None:
        self.served = groups
        self.generation = 0
        self.adopted: dict[tuple[str, str], str] = {}

    def adopted_by(self, group: str, version: str) -> str:
        return self.adopted.get((group, version), "")

    def groups(self) -> Sequence[APIGroup]:
        return self.served

    def built_in(self, group: str) -> bool:
        return group in ("", "apps") and any(each.name == group for each in self.served)

    def published(self, group: str, version: str) -> Sequence[Published]:
        return []

    def change(self, *groups: APIGroup) -> None:
        self.served = groups
        self.generation += 1


async def ask(discovery: Discovery, path: str, method: str = "GET", **headers: str) -> Response:
    async def receive() -> Any:
        raise AssertionError("nothing is read")

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"method": method, "path": path, "query_string": b"", "headers": pairs, "http_version": "1.1"}
    return await discovery(Request(scope, receive))


def tree(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


KINDS = {
    "/api": "APIVersions",
    "/api/v1": "APIResourceList",
    "/apis": "APIGroupList",
    "/apis/": "APIGroupList",
    "/apis/a.example.com": "APIGroup",
    "/apis/a.example.com/v1": "APIResourceList",
    "/apis/a.example.com/v1beta1/": "APIResourceList",
}


@pytest.mark.parametrize(("path", "kind"), KINDS.items())
async def test_documents(path: str, kind: str) -> None:
    discovery = Discovery(FakeCatalog(group("", "v1"), group("a.example.com", "v1", "v1beta1")))
    response = await ask(discovery, path)
    assert (response.status, response.content_type) == (200, b"application/json")
    assert tree(response)["kind"] == kind


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis/b.example.com", "/apis/a.example.com/v2", "/apis/a.example.com/v1/x"])
async def test_what_is_not_served(path: str) -> None:
    discovery = Discovery(FakeCatalog(group("a.example.com", "v1")))
    for accept in ("application/json", f"{AGGREGATED},application/json"):
        response = await ask(discovery, path, accept=accept)
        assert (response.status, response.body, response.content_type) == (
            404,
            b"404 page not found\n",
            b"text/plain; charset=utf-8",
        )


@pytest.mark.parametrize("path", ["/api/v2", "/api/v1beta", "/apis/apps/v9", "/apis/apps/v1/x"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_not_served_of_a_built_in_group(path: str, method: str) -> None:
    discovery = Discovery(FakeCatalog(group("", "v1"), group("apps", "v1"), group("a.example.com", "v1")))
    with pytest.raises(StatusError) as caught:
        await ask(discovery, path, method)
    assert (caught.value.code, caught.value.message) == (404, "the server could not find the requested resource")
    # A group of definitions alone is answered for by Go's net/http.
    response = await ask(discovery, "/apis/a.example.com/v9", method)
    assert (response.status, response.body) == (404, b"404 page not found\n")


async def test_yaml_and_refusal() -> None:
    discovery = Discovery(FakeCatalog(group("a.example.com", "v1")))
    response = await ask(discovery, "/apis/a.example.com/v1", accept="application/yaml")
    assert response.content_type == b"application/yaml"
    assert isinstance(response.body, bytes)
    assert response.body.startswith(b"apiVersion: v1\ngroupVersion: a.example.com/v1\nkind: APIResourceList\n")
    with pytest.raises(StatusError) as caught:
        await ask(discovery, "/apis", accept="text/plain")
    assert caught.value.code == 406


async def test_people_get_lines() -> None:
    response = await ask(Discovery(FakeCatalog()), "/apis", user_agent="curl/8")
    assert response.body == b'{\n  "kind": "APIGroupList",\n  "apiVersion": "v1",\n  "groups": []\n}'


async def test_only_reading() -> None:
    with pytest.raises(StatusError) as caught:
        await ask(Discovery(FakeCatalog()), "/apis", "POST")
    assert caught.value.code == 405
    assert (await ask(Discovery(FakeCatalog()), "/apis", "HEAD")).status == 200


async def test_aggregated() -> None:
    catalog = FakeCatalog(group("", "v1"), group("a.example.com", "v1"))
    discovery = Discovery(catalog)
    # The aggregator's header: it still asks for the beta version too, which upstream has removed.
    accept = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    response = await ask(discovery, "/apis", accept=accept)
    assert response.content_type == AGGREGATED.encode()
    assert [item["metadata"] for item in tree(response)["items"]] == [{"name": "a.example.com"}]
    headers = dict(response.headers)
    assert headers[b"vary"] == b"Accept"
    assert headers[b"cache-control"] == b"public"
    etag = headers[b"etag"].decode()
    assert len(etag) == 130
    assert etag == f'"{etag[1:-1].upper()}"'

    again = await ask(discovery, "/apis", accept=accept, if_none_match=etag)
    assert (again.status, again.body, dict(again.headers)[b"etag"]) == (304, b"", etag.encode())

    core = await ask(discovery, "/api", accept=accept)
    assert [item["metadata"] for item in tree(core)["items"]] == [{}]

    catalog.change(group("a.example.com", "v1", "v2"))
    changed = await ask(discovery, "/apis", accept=accept, if_none_match=etag)
    assert changed.status == 200
    assert [version["version"] for version in tree(changed)["items"][0]["versions"]] == ["v1", "v2"]


async def test_an_adopted_group_version_says_by_whom() -> None:
    """At once, since whoever switches it to this server waits for that."""
    catalog = FakeCatalog(group("", "v1"), group("a.example.com", "v1", "v2"))
    discovery = Discovery(catalog)
    paths = ("/api", "/api/v1", "/apis", "/apis/a.example.com", "/apis/a.example.com/v1", "/apis/a.example.com/v2")

    async def told(method: str = "GET") -> dict[str, bytes]:
        answers = {path: dict((await ask(discovery, path, method)).headers) for path in paths}
        return {path: headers[b"x-aggserver-adopted"] for path, headers in answers.items() if b"x-aggserver-adopted" in headers}

    assert await told() == {}
    catalog.adopted["a.example.com", "v1"] = "some-id"
    assert await told() == await told("HEAD") == {"/apis/a.example.com/v1": b"some-id"}
    assert dict((await ask(discovery, "/apis/a.example.com/v1/")).headers) == {b"x-aggserver-adopted": b"some-id"}
    assert (await ask(discovery, "/apis/a.example.com/v3")).headers == page_not_found().headers
    catalog.adopted.clear()
    assert await told() == {}


async def test_the_old_beta_alone_is_refused() -> None:
    discovery = Discovery(FakeCatalog(group("a.example.com", "v1")))
    with pytest.raises(StatusError) as caught:
        await ask(discovery, "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
    assert caught.value.code == 406


async def test_a_change_is_seen_at_once() -> None:
    catalog = FakeCatalog()
    discovery = Discovery(catalog)
    assert tree(await ask(discovery, "/apis"))["groups"] == []
    assert (await ask(discovery, "/apis/a.example.com")).status == 404
    catalog.change(group("a.example.com", "v1"), group("", "v1"))
    assert (await ask(discovery, "/apis/a.example.com")).status == 200
    assert tree(await ask(discovery, "/api"))["versions"] == ["v1"]


ETAGS = {
    "same": ('"A"', True),
    "weak": ('W/"A"', True),
    "one of several": ('"B", "A"', True),
    "any": ("*", True),
    "another": ('"B"', False),
    "without quotes": ("A", False),
    "none": ("", False),
}


@pytest.mark.parametrize(("header", "wanted"), ETAGS.values(), ids=ETAGS)
def test_etags(header: str, wanted: bool) -> None:
    assert matches_etag(header, '"A"') is wanted


def test_page_not_found() -> None:
    assert page_not_found().headers == [(b"x-content-type-options", b"nosniff")]


MEDIA = {
    "application/json": b"application/json",
    "application/yaml": b"application/yaml",
    "application/vnd.kubernetes.protobuf": b"application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json": b"application/vnd.kubernetes.protobuf",
    "text/plain,*/*": b"application/json",
    AGGREGATED: b"application/json",
    AGGREGATED.replace("json", "vnd.kubernetes.protobuf"): b"application/vnd.kubernetes.protobuf",
    AGGREGATED.replace("json", "yaml"): b"application/yaml",
}


@pytest.mark.parametrize("accept", MEDIA)
@pytest.mark.parametrize("path", KINDS)
async def test_every_document_in_every_media_type(path: str, accept: str) -> None:
    discovery = Discovery(FakeCatalog(group("", "v1"), group("a.example.com", "v1", "v1beta1")))
    if "as=" in accept and path.rstrip("/") not in ("/api", "/apis"):
        with pytest.raises(StatusError, match="only the following media types are accepted"):
            await ask(discovery, path, accept=accept)
        return
    response = await ask(discovery, path, accept=accept)
    assert (response.status, response.content_type.partition(b";")[0]) == (200, MEDIA[accept])
    assert isinstance(response.body, bytes)
    if MEDIA[accept].endswith(b"protobuf"):
        assert response.body.startswith(b"k8s\0")

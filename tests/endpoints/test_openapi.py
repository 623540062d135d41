from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from aggserver.endpoints import openapi
from aggserver.endpoints.openapi import OpenAPI
from aggserver.endpoints.request import Request, Response
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import openapi_v2, openapi_v3
from aggserver.publish.discovery import APIGroup, APIGroupVersion, APIResource
from aggserver.publish.models import Published

PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_KUBECTL = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF_V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
NOW = 1_600_000_000.0


def thing(group: str, version: str, description: str = "") -> Published:
    schema = {"type": "object", "description": description}
    info = ResourceInfo(group, version, "things", "Thing", "ThingList", namespaced=True)
    return Published(APIResource(info, ("get", "list", "patch")), schema)


class FakeCatalog:
    def __init__(self, *resources: Published) -> None:
        self.resources: tuple[Published, ...] = resources
        self.generation = 0

    def groups(self) -> Sequence[APIGroup]:
        versions: dict[str, list[APIGroupVersion]] = {}
        for resource in self.resources:
            versions.setdefault(resource.info.group, []).append(APIGroupVersion(resource.info.group, resource.info.version, ()))
        return [APIGroup(group, tuple(found)) for group, found in versions.items()]

    def published(self, group: str, version: str) -> Sequence[Published]:
        return [resource for resource in self.resources if (resource.info.group, resource.info.version) == (group, version)]

    def change(self, *resources: Published) -> None:
        self.resources = resources
        self.generation += 1


class Client:
    def __init__(self, catalog: FakeCatalog) -> None:
        self.openapi = OpenAPI(catalog, "1.2.3", lambda: NOW)

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Response:
        async def receive() -> Any:
            raise AssertionError("nothing is read")

        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        path, _, query = path.partition("?")
        scope = {"method": method, "path": path, "query_string": query.encode(), "headers": pairs, "http_version": "1.1"}
        return await self.openapi(Request(scope, receive))

    async def tree(self, path: str) -> Any:
        response = await self.ask(path)
        assert response.status == 200
        assert isinstance(response.body, bytes)
        return json.loads(response.body)

    async def locations(self) -> dict[str, str]:
        paths = (await self.tree("/openapi/v3"))["paths"]
        return {name: entry["serverRelativeURL"] for name, entry in paths.items()}


@pytest.fixture
def catalog() -> FakeCatalog:
    return FakeCatalog(thing("a.example.com", "v1"), thing("a.example.com", "v2"), thing("", "v1"))


@pytest.fixture
def client(catalog: FakeCatalog) -> Client:
    return Client(catalog)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records each time a document is built, and builds it."""
    found: list[str] = []
    v3, v2 = openapi_v3.build, openapi_v2.build

    def noting_v3(group: str, version: str, *args: Any, **kwargs: Any) -> Any:
        found.append(f"{group}/{version}")
        return v3(group, version, *args, **kwargs)

    def noting_v2(*args: Any, **kwargs: Any) -> Any:
        found.append("v2")
        return v2(*args, **kwargs)

    monkeypatch.setattr(openapi_v3, "build", noting_v3)
    monkeypatch.setattr(openapi_v2, "build", noting_v2)
    return found


async def test_index_leads_to_the_documents(client: Client) -> None:
    locations = await client.locations()
    assert list(locations) == ["apis/a.example.com/v1", "apis/a.example.com/v2", "api/v1"]
    for name, location in locations.items():
        path, _, etag = location.partition("?hash=")
        assert path == f"/openapi/v3/{name}"
        assert len(etag) == 128
        response = await client.ask(location)
        headers = dict(response.headers)
        assert response.status == 200
        assert headers[b"etag"] == f'"{etag}"'.encode()
        assert headers[b"cache-control"] == b"public, immutable"
        assert headers[b"expires"] == b"Mon, 13 Sep 2021 12:26:40 GMT"
        assert headers[b"vary"] == b"Accept"


async def test_documents(client: Client) -> None:
    document = await client.tree("/openapi/v3/apis/a.example.com/v2")
    assert document["info"]["version"] == "1.2.3"
    assert "com.example.a.v2.Thing" in document["components"]["schemas"]
    assert "/api/v1/namespaces/{namespace}/things" in (await client.tree("/openapi/v3/api/v1"))["paths"]
    whole = await client.tree("/openapi/v2")
    assert len([path for path in whole["paths"] if path.endswith("{name}")]) == 3


async def test_without_a_hash_nothing_is_said_of_the_future(client: Client) -> None:
    headers = dict((await client.ask("/openapi/v3/apis/a.example.com/v1")).headers)
    assert b"cache-control" not in headers
    assert b"etag" in headers


async def test_another_hash_is_sent_to_the_right_one(client: Client) -> None:
    location = (await client.locations())["apis/a.example.com/v1"]
    response = await client.ask("/openapi/v3/apis/a.example.com/v1?hash=OLD")
    assert response.status == 301
    assert dict(response.headers)[b"location"] == location.encode()
    assert response.body == b""


@pytest.mark.parametrize("path", ["/openapi/v3", "/openapi/v3/apis/a.example.com/v1", "/openapi/v2"])
async def test_not_modified(client: Client, path: str) -> None:
    etag = dict((await client.ask(path)).headers)[b"etag"].decode()
    response = await client.ask(path, if_none_match=etag)
    assert (response.status, response.body) == (304, b"")
    assert (await client.ask(path, if_none_match='"OLD"')).status == 200


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        pytest.param("/openapi/v2", "text/plain", id="v2-as-text"),
        pytest.param("/openapi/v2", PROTOBUF_V3, id="v2-as-v3"),
        pytest.param("/openapi/v3/apis/a.example.com/v1", "text/plain", id="v3-as-text"),
        pytest.param("/openapi/v3/apis/a.example.com/v1", PROTOBUF_V2, id="v3-as-v2"),
    ],
)
async def test_refused_forms(client: Client, path: str, accept: str) -> None:
    with pytest.raises(StatusError) as caught:
        await client.ask(path, accept=accept)
    assert caught.value.code == 406
    assert (await client.ask(path, accept=f"{accept}, */*")).content_type == b"application/json"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("", b"application/json", id="nothing-said"),
        pytest.param("*/*", b"application/json", id="anything"),
        pytest.param("application/*", b"application/json", id="any-application"),
        pytest.param(f"application/json, {PROTOBUF_V2}", b"application/json", id="json-first"),
        pytest.param(PROTOBUF_KUBECTL, PROTOBUF_V2.encode(), id="as-kubectl-asks"),
        pytest.param(PROTOBUF_V2, PROTOBUF_V2.encode(), id="protobuf"),
        pytest.param(f"application/json;q=0.5, {PROTOBUF_V2}", PROTOBUF_V2.encode(), id="protobuf-preferred"),
    ],
)
async def test_forms_of_v2(client: Client, accept: str, content_type: bytes) -> None:
    response = await client.ask("/openapi/v2", accept=accept)
    assert (response.status, response.content_type) == (200, content_type)
    assert dict(response.headers)[b"vary"] == b"Accept"
    assert isinstance(response.body, bytes)
    assert response.body.startswith(b"{" if content_type == b"application/json" else b"\x0a\x032.0")


@pytest.mark.parametrize("name", [PROTOBUF_V3, PROTOBUF_V3.replace("v3.v1", "v3@v1")])
async def test_v3_as_protobuf(client: Client, built: list[str], name: str) -> None:
    location = (await client.locations())["apis/a.example.com/v1"]
    for _ in range(2):
        response = await client.ask(location, accept=f"{name}, application/json;q=0.5")
        assert (response.status, response.content_type) == (200, PROTOBUF_V3.encode())
        assert isinstance(response.body, bytes)
        assert response.body.startswith(b"\x0a\x053.0.0")
        assert dict(response.headers)[b"cache-control"] == b"public, immutable"
    assert built == ["a.example.com/v1"]
    etag = dict(response.headers)[b"etag"].decode()
    assert (await client.ask(location, accept=name, if_none_match=etag)).status == 304


async def test_each_form_of_v2_is_built_once_and_has_its_etag(client: Client, catalog: FakeCatalog, built: list[str]) -> None:
    etags = []
    for accept in ("application/json", PROTOBUF_KUBECTL):
        etag = dict((await client.ask("/openapi/v2", accept=accept)).headers)[b"etag"].decode()
        assert (await client.ask("/openapi/v2", accept=accept, if_none_match=etag)).status == 304
        etags.append(etag)
    assert (await client.ask("/openapi/v2", accept=PROTOBUF_V2, if_none_match=etags[0])).status == 200
    assert etags[0] != etags[1]
    assert built == ["v2", "v2"]
    catalog.change(thing("b.example.com", "v1"))
    changed = await client.ask("/openapi/v2", accept=PROTOBUF_V2, if_none_match=etags[1])
    assert changed.status == 200
    assert isinstance(changed.body, bytes)
    assert b"com.example.b.v1.Thing" in changed.body


@pytest.mark.parametrize(
    "path", ["/openapi", "/openapi/v4", "/openapi/v3/apis/b.example.com/v1", "/openapi/v3/apis/a.example.com"]
)
async def test_what_is_not_there(client: Client, path: str) -> None:
    assert (await client.ask(path)).status == 404


async def test_index_and_questions_build_nothing(client: Client, built: list[str]) -> None:
    await client.locations()
    assert built == []
    await client.ask("/openapi/v3/apis/a.example.com/v1")
    await client.ask("/openapi/v3/apis/a.example.com/v1")
    assert built == ["a.example.com/v1"]
    etag = dict((await client.ask("/openapi/v2")).headers)[b"etag"].decode()
    await client.ask("/openapi/v2")
    await client.ask("/openapi/v2", if_none_match=etag)
    assert built == ["a.example.com/v1", "v2"]


async def test_change_touches_only_what_it_changes(client: Client, catalog: FakeCatalog, built: list[str]) -> None:
    before = await client.locations()
    await client.ask("/openapi/v3/apis/a.example.com/v1")
    await client.ask("/openapi/v3/apis/a.example.com/v2")
    etag = dict((await client.ask("/openapi/v2")).headers)[b"etag"].decode()
    built.clear()
    catalog.change(thing("a.example.com", "v1"), thing("a.example.com", "v2", "new"))
    after = await client.locations()
    assert after.keys() == {"apis/a.example.com/v1", "apis/a.example.com/v2"}
    assert after["apis/a.example.com/v1"] == before["apis/a.example.com/v1"]
    assert after["apis/a.example.com/v2"] != before["apis/a.example.com/v2"]
    await client.ask("/openapi/v3/apis/a.example.com/v1")
    await client.ask("/openapi/v3/apis/a.example.com/v2")
    assert (await client.ask("/openapi/v2", if_none_match=etag)).status == 200
    assert built == ["a.example.com/v2", "v2"]


async def test_a_change_that_changes_nothing(client: Client, catalog: FakeCatalog) -> None:
    etag = dict((await client.ask("/openapi/v2")).headers)[b"etag"].decode()
    catalog.change(*catalog.resources)
    assert (await client.ask("/openapi/v2", if_none_match=etag)).status == 304


async def test_documents_kept_are_few(client: Client, catalog: FakeCatalog) -> None:
    catalog.change(*[thing(f"g{number}.example.com", "v1") for number in range(50)])
    for name in await client.locations():
        await client.ask(f"/openapi/v3/{name}")
    assert len(client.openapi._documents) == 32


async def test_only_reading(client: Client) -> None:
    with pytest.raises(StatusError) as caught:
        await client.ask("/openapi/v2", "POST")
    assert caught.value.code == 405


async def test_documents_are_made_in_a_thread_and_once_for_all_that_wait(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, bool]] = []

    def noted(module: Any, name: str) -> None:
        build = getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made.append((module.__name__.rpartition(".")[2], threading.current_thread() is threading.main_thread()))
            return build(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    noted(openapi_v3, "build")
    noted(openapi_v2, "build")
    fingerprints = client.openapi._fingerprints

    def told(*args: Any) -> Any:
        made.append(("fingerprints", threading.current_thread() is threading.main_thread()))
        return fingerprints(*args)

    monkeypatch.setattr(client.openapi, "_fingerprints", told)
    paths = ["/openapi/v3/apis/a.example.com/v1"] * 5 + ["/openapi/v2"] * 5
    answers = await asyncio.gather(*map(client.ask, paths))
    assert {answer.status for answer in answers} == {200}
    assert sorted(made) == [("fingerprints", False), ("openapi_v2", False), ("openapi_v3", False)]


async def test_a_change_while_documents_are_made(client: Client, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is that of its ETag, and the next request gets the new one."""
    build = openapi_v3.build

    def changing(*args: Any, **kwargs: Any) -> Any:
        catalog.change(thing("a.example.com", "v1", "after the change"))
        return build(*args, **kwargs)

    location = (await client.locations())["apis/a.example.com/v1"]
    monkeypatch.setattr(openapi_v3, "build", changing)
    assert "after the change" not in json.dumps(await client.tree(location))
    monkeypatch.setattr(openapi_v3, "build", build)
    assert (await client.ask(location)).status == 301
    assert "after the change" in json.dumps(await client.tree("/openapi/v3/apis/a.example.com/v1"))


@pytest.mark.parametrize("document", [{}, {"a": {}, "b": {"c": {"d": {"e": [1]}}, "f": 'g"\u00e9'}}, {"a": [], "b": None}])
def test_encoding_in_parts(document: dict[str, Any]) -> None:
    assert openapi._encode_json(document) == orjson.dumps(document)

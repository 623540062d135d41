from __future__ import annotations

import pytest

from aggserver.endpoints.loading import loading
from aggserver.options import Options
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS
from tests.fakes.server import ADMIN, ByPeer, LocalServer

GROUP = "/apis/stable.example.com"
OURS = f"{GROUP}/v1"

PATHS: dict[str, tuple[str, int, int, int]] = {
    # name: (path, status while loading, once all is known, and where the cluster says which group-versions there are)
    "objects": (f"{OURS}/crontabs", 503, 200, 200),
    "an object": (f"{OURS}/namespaces/default/crontabs/missing", 503, 404, 404),
    "another resource of a group-version": (f"{OURS}/others", 503, 404, 404),
    "objects of another version": (f"{GROUP}/v7/crontabs", 503, 404, 503),
    "objects of another group": ("/apis/other.example.com/v1/crontabs", 503, 404, 503),
    "discovery of a group-version": (OURS, 503, 200, 200),
    "discovery of another version": (f"{GROUP}/v7", 503, 404, 503),
    "discovery of a group": (GROUP, 503, 200, 200),
    "discovery of another group": ("/apis/other.example.com", 503, 404, 404),
    "discovery": ("/apis", 503, 200, 200),
    "OpenAPI v3": ("/openapi/v3", 503, 200, 200),
    "OpenAPI v2": ("/openapi/v2", 503, 200, 200),
    "readiness": ("/readyz", 200, 200, 200),
    "the version": ("/version", 200, 200, 200),
    "another path": ("/apis-of-others", 404, 404, 404),
}


@pytest.mark.parametrize("name", PATHS)
async def test_what_is_not_known_yet_is_not_missing(server: LocalServer, name: str) -> None:
    path, *statuses = PATHS[name]
    server.serve(CRONTABS)
    missing: list[str | None] = ["the folder has not been read yet"]
    options = Options(command="serve")
    installer = server.engine.installer

    async def get(filters: object) -> int:
        app = server.engine.asgi(ByPeer(), server.rules, options, before_authorization={"loading": filters})  # type: ignore
        answer = await Client(app, ADMIN).get(path)
        if answer.status == 503:
            assert (answer.json()["reason"], answer.header("retry-after")) == ("ServiceUnavailable", "1")
        return answer.status

    known, cluster = loading(lambda: missing[0]), loading(lambda: None, installer.serves)
    found = [await get(known)]
    missing[0] = None
    assert [*found, await get(known), await get(cluster)] == statuses


async def test_why_something_may_not_be_served_is_told(server: LocalServer) -> None:
    filters = loading(lambda: None, server.engine.installer.serves, lambda: "a record can't be read")
    options = Options(command="serve")
    app = server.engine.asgi(ByPeer(), server.rules, options, before_authorization={"loading": filters})  # type: ignore
    answer = await Client(app, ADMIN).get("/apis/other.example.com/v1/crontabs")
    assert (answer.status, answer.json()["message"]) == (
        503,
        "other.example.com/v1 is not served by this server now: a record can't be read; please try again",
    )

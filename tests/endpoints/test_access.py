from __future__ import annotations

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.standalone import StandaloneAuthorizer
from aggserver.endpoints.access import attributes_of, require
from aggserver.endpoints.request_info import parse
from aggserver.meta.errors import StatusError

JANE = UserInfo("jane")


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        pytest.param("GET", "/openapi/v2", {}, Attributes(JANE, "get", path="/openapi/v2"), id="path"),
        pytest.param("HEAD", "/version", {}, Attributes(JANE, "head", path="/version"), id="HEAD of a path"),
        pytest.param(
            "PUT",
            "/apis/g.io/v1/namespaces/ns/things/x/status",
            {},
            Attributes(
                JANE, "update", "g.io", "v1", "things", "status", "ns", "x", "/apis/g.io/v1/namespaces/ns/things/x/status"
            ),
            id="subresource",
        ),
        pytest.param(
            "GET",
            "/apis/g.io/v1/things",
            {"watch": "1", "labelSelector": "a=b", "fieldSelector": "metadata.name=x"},
            Attributes(JANE, "watch", "g.io", "v1", "things", "", "", "x", "/apis/g.io/v1/things", "metadata.name=x", "a=b"),
            id="watch with selectors",
        ),
    ],
)
def test_attributes_of(method: str, path: str, query: dict[str, str], expected: Attributes) -> None:
    assert attributes_of(parse(method, path, query), JANE) == expected


async def test_require() -> None:
    authorizer = StandaloneAuthorizer()
    await require(authorizer, Attributes(UserInfo("admin", groups=("system:masters",)), "delete", resource="things"))
    with pytest.raises(StatusError, match=r'^things is forbidden: User "jane" cannot delete resource "things" in API group ""'):
        await require(authorizer, Attributes(JANE, "delete", resource="things"))

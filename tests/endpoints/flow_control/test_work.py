"""How many seats a request takes."""

from __future__ import annotations

import pytest

from aggserver.endpoints import request_info
from aggserver.endpoints.flow_control.work import seats

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# (objects, bytes) of all of them, by namespace.
EXTENTS = {"default": (100, 400_000), "": (100_000, 400_000_000), "empty": (0, 0)}


@pytest.mark.parametrize(
    ("method", "path", "query", "accept", "wanted"),
    [
        pytest.param("GET", f"{PODS}/one", {}, "", 1, id="get"),
        pytest.param("POST", PODS, {}, "", 1, id="create"),
        pytest.param("DELETE", PODS, {}, "", 1, id="deletecollection"),
        pytest.param("GET", "/healthz", {}, "", 1, id="a path"),
        pytest.param("GET", PODS, {}, "application/json", 4, id="list"),
        pytest.param("GET", "/api/v1/pods", {}, "application/json", 10, id="list of many"),
        pytest.param("GET", "/api/v1/namespaces/empty/pods", {}, "", 1, id="list of none"),
        pytest.param("GET", PODS, {}, TABLE, 10, id="Table"),
        pytest.param("GET", PODS, {"limit": "10"}, TABLE, 1, id="Table of a few"),
        pytest.param("GET", PODS, {"limit": "30"}, "application/yaml", 3, id="YAML of more"),
        pytest.param("GET", PODS, {"limit": "60"}, "application/json", 3, id="page"),
        pytest.param("GET", PODS, {"limit": "500"}, "application/json", 4, id="page of all"),
        pytest.param("GET", PODS, {"limit": "0"}, "application/json", 4, id="no page"),
        pytest.param("GET", PODS, {"limit": "9" * 5000}, "application/json", 4, id="a long number"),
        pytest.param("GET", PODS, {"limit": "-1"}, "application/json", 4, id="no number"),
        pytest.param("GET", PODS, {"fieldSelector": "metadata.name=one"}, "application/json", 1, id="list of one name"),
        pytest.param("GET", PODS, {"watch": "1"}, "application/json", 4, id="watch from the beginning"),
        pytest.param("GET", PODS, {"watch": "1", "resourceVersion": "0"}, "", 4, id="watch from any state"),
        pytest.param("GET", PODS, {"watch": "1", "resourceVersion": "7"}, "", 1, id="watch from a revision"),
        pytest.param(
            "GET", PODS, {"watch": "1", "resourceVersion": "7", "sendInitialEvents": "true"}, "", 4, id="watch with a list"
        ),
    ],
)
def test_seats(method: str, path: str, query: dict[str, str], accept: str, wanted: int) -> None:
    info = request_info.parse(method, path, query)
    assert seats(info, query, accept, lambda group, resource, namespace: EXTENTS[namespace]) == wanted

from __future__ import annotations

from typing import Any

import pytest

from aggserver.endpoints import negotiation, request_info
from aggserver.endpoints.negotiation import AGGREGATED_DISCOVERY, PLAIN, MediaType, Negotiator
from aggserver.endpoints.request import Request
from aggserver.meta.errors import StatusError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CRONTABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"


def request(path: str = f"{CRONTABS}/one", query: str = "", method: str = "GET", **headers: str) -> Request:
    async def receive() -> Any:
        raise AssertionError("nothing is read")

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"method": method, "path": path, "query_string": query.encode(), "headers": pairs, "http_version": "1.1"}
    made = Request(scope, receive)
    made.info = request_info.parse(method, path, made.query)
    return made


OBJECTS: dict[str, tuple[str, str, str]] = {
    # name: (Accept, subtype, conversion)
    "none": ("", "json", ""),
    "anything": ("*/*", "json", ""),
    "lone star": ("*", "json", ""),
    "any application": ("application/*", "json", ""),
    "yaml": ("application/yaml", "yaml", ""),
    "kubectl get": (f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "json", "Table"),
    "table as yaml": ("application/yaml;as=Table;v=v1;g=meta.k8s.io", "yaml", "Table"),
    "unknown version of a table": ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "json", ""),
    "protobuf first, metadata": (
        f"application/vnd.kubernetes.protobuf;{PARTIAL},application/json;{PARTIAL},application/json",
        "vnd.kubernetes.protobuf",
        "PartialObjectMetadata",
    ),
    "protobuf first, table": (f"application/vnd.kubernetes.protobuf;{TABLE[17:]},{TABLE}", "json", "Table"),
    "protobuf first": ("application/vnd.kubernetes.protobuf,application/json", "json", ""),
    "weights": ("application/json;q=0.5,application/yaml", "yaml", ""),
    "weights that agree": ("application/yaml,application/json", "yaml", ""),
    "exact before any": ("*/*,application/yaml", "yaml", ""),
    "exact before any of a type": ("application/*,application/yaml", "yaml", ""),
    "weight before exactness": ("application/yaml;q=0.1,*/*", "json", ""),
    "weight of nothing": ("application/json;q=0,application/yaml", "yaml", ""),
    "spaces": (" application/yaml ; q=1 , text/plain ", "yaml", ""),
    "browser": ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "json", ""),
    "malformed clauses": ("application,a/b/c,;q=1,application/yaml", "yaml", ""),
    "charset": ("application/json;charset=utf-8", "json", ""),
    "server version": ("application/json;sv=v2,application/yaml;sv=v1", "yaml", ""),
}


@pytest.mark.parametrize(("accept", "subtype", "convert"), OBJECTS.values(), ids=OBJECTS)
def test_for_object(accept: str, subtype: str, convert: str) -> None:
    media = negotiation.for_object(request(accept=accept))
    assert (media.subtype, media.convert) == (subtype, convert)
    assert media.api_version == ("meta.k8s.io/v1" if convert else "")


REFUSED = ["text/plain", "application/vnd.kubernetes.protobuf", "application/json;as=Table;g=meta.k8s.io;v=v9", "junk"]


@pytest.mark.parametrize("accept", REFUSED)
def test_refusal(accept: str) -> None:
    with pytest.raises(StatusError) as caught:
        negotiation.for_object(request(accept=accept))
    assert caught.value.code == 406
    types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    assert caught.value.message == f"only the following media types are accepted: {types}"


def test_watches_have_no_yaml() -> None:
    with pytest.raises(StatusError) as caught:
        negotiation.for_watch(request(accept="application/yaml"))
    streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    assert caught.value.message == f"only the following media types are accepted: {streams}"
    media = negotiation.for_watch(request(accept="application/json;stream=watch", user_agent="curl/8"))
    assert media.plain_json
    assert media.stream_content_type == b"application/json"
    media = negotiation.for_watch(request(accept=f"application/vnd.kubernetes.protobuf;{PARTIAL}"))
    assert media.stream_content_type == b"application/vnd.kubernetes.protobuf;stream=watch"


MISMATCHED = {
    "metadata of a list": (
        CRONTABS,
        "PartialObjectMetadata",
        "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)",
    ),
    "metadata list of an object": (
        f"{CRONTABS}/one",
        "PartialObjectMetadataList",
        "you requested PartialObjectMetadataList, but the requested object is not a list (*unstructured.Unstructured)",
    ),
}


@pytest.mark.parametrize(("path", "kind", "text"), MISMATCHED.values(), ids=MISMATCHED)
def test_lists_and_objects_are_not_each_other(path: str, kind: str, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        negotiation.for_object(request(path, accept=f"application/json;as={kind};g=meta.k8s.io;v=v1"))
    assert (caught.value.code, caught.value.message) == (406, text)


PRETTY: dict[str, tuple[str, dict[str, str], bool]] = {
    "nobody asks": ("", {"user_agent": "kubectl/v1.36"}, False),
    "no user agent": ("", {}, False),
    "curl": ("", {"user_agent": "curl/8.5"}, True),
    "wget": ("", {"user_agent": "Wget/1.2"}, True),
    "browser": ("", {"user_agent": "Mozilla/5.0 (X11)"}, True),
    "query": ("pretty=true", {}, True),
    "query 1": ("limit=3&pretty=1", {}, True),
    "query against curl": ("pretty=false", {"user_agent": "curl/8"}, False),
    "junk against curl": ("pretty=yes", {"user_agent": "curl/8"}, False),
    "empty query": ("pretty=", {"user_agent": "curl/8"}, True),
    "media type": ("", {"accept": "application/json;pretty=1"}, True),
}


@pytest.mark.parametrize(("query", "headers", "wanted"), PRETTY.values(), ids=PRETTY)
def test_pretty(query: str, headers: dict[str, str], wanted: bool) -> None:
    media = negotiation.for_object(request(query=query, **headers))
    assert media.pretty is wanted
    assert media.plain_json is not wanted


def test_encodings() -> None:
    tree = {"b": [1], "a": "y"}
    assert MediaType().encode(tree) == (b'{"b":[1],"a":"y"}\n', b"application/json")
    assert MediaType(pretty=True).encode({"a": 1}) == (b'{\n  "a": 1\n}', b"application/json")
    assert MediaType("yaml").encode(tree) == (b'a: "y"\nb:\n- 1\n', b"application/yaml")
    status = {"apiVersion": "v1", "kind": "Status", "code": 404}
    assert MediaType("vnd.kubernetes.protobuf").encode(status) == (
        b"k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x030\x94\x03",
        b"application/vnd.kubernetes.protobuf",
    )
    table = MediaType(convert="Table", api_version="meta.k8s.io/v1")
    assert table.unconverted() == MediaType()


def test_aggregated_discovery() -> None:
    found = AGGREGATED_DISCOVERY.match(f"{AGGREGATED},application/json")
    assert found is not None
    assert found.convert == "APIGroupDiscoveryList"
    assert AGGREGATED_DISCOVERY.match("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList") is None
    assert AGGREGATED_DISCOVERY.match("") is None
    assert AGGREGATED_DISCOVERY.match("application/json") is None
    assert PLAIN.match(AGGREGATED) is None


def test_memory_is_bounded() -> None:
    negotiator = Negotiator(("application/json",))
    for number in range(3000):
        assert negotiator.match(f"application/json;x={number}") is not None
    assert len(negotiator._known) <= 1024


@pytest.mark.parametrize(
    ("content_type", "wanted"),
    [
        ("", False),
        ("application/json", False),
        ("application/json; charset=utf-8", False),
        ("Application/YAML", True),
        ("application/yaml", True),
    ],
)
def test_body(content_type: str, wanted: bool) -> None:
    assert negotiation.body_is_yaml(content_type) is wanted


def test_body_of_another_type() -> None:
    with pytest.raises(StatusError) as caught:
        negotiation.body_is_yaml("text/plain")
    assert caught.value.code == 415
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


def test_what_is_only_created_has_no_tables() -> None:
    asked = request(method="POST", accept=TABLE)
    with pytest.raises(StatusError, match="only the following media types are accepted: application/json, application/yaml"):
        negotiation.for_object(asked, tables=False)
    either = request(method="POST", accept=f"{TABLE},application/json")
    assert negotiation.for_object(either, tables=False).convert == ""
    assert negotiation.for_object(request(method="POST", accept=f"application/json;{PARTIAL}"), tables=False).convert
    assert negotiation.for_object(asked).convert == "Table"

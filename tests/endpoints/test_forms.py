"""The forms of answers: Table, PartialObjectMetadata, YAML, indented JSON, HEAD, gzip."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from aggserver.endpoints import compression
from aggserver.endpoints.request import LongBody
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import LocalServer

ONE = f"{CRONTABS_PATH}/one"


def accept(kind: str, version: str = "v1") -> dict[str, str]:
    return {"accept": f"application/json;as={kind};g=meta.k8s.io;v={version},application/json"}


@pytest.fixture(autouse=True)
async def made(server: LocalServer, client: Client) -> None:
    server.serve(CRONTABS)
    server.serve(WIDGETS)
    await client.post(CRONTABS_PATH, crontab(replicas=3))


async def test_table_of_a_list(client: Client) -> None:
    tree = (await client.get(CRONTABS_PATH, headers=accept("Table"))).json()
    assert (tree["kind"], tree["apiVersion"], tree["metadata"]) == ("Table", "meta.k8s.io/v1", {"resourceVersion": "3"})
    assert [(column["name"], column["type"]) for column in tree["columnDefinitions"]] == [
        ("Name", "string"),
        ("Spec", "string"),
        ("Replicas", "integer"),
    ]
    (row,) = tree["rows"]
    assert row["cells"] == ["one", "* * * * *", 3]
    assert (row["object"]["kind"], row["object"]["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert row["object"]["metadata"]["name"] == "one"


async def test_table_of_an_object(client: Client) -> None:
    tree = (await client.get(ONE, headers=accept("Table", "v1beta1"))).json()
    assert (tree["kind"], tree["apiVersion"]) == ("Table", "meta.k8s.io/v1beta1")
    assert tree["rows"][0]["cells"] == ["one", "* * * * *", 3]


async def test_table_of_what_was_made(client: Client) -> None:
    answer = await client.post(CRONTABS_PATH, crontab("two"), headers=accept("Table"))
    assert (answer.status, answer.json()["rows"][0]["cells"]) == (201, ["two", "* * * * *", None])


async def test_table_with_an_age(client: Client) -> None:
    await client.post(WIDGETS_PATH, widget())
    tree = (await client.get(WIDGETS_PATH, headers=accept("Table"))).json()
    assert [column["name"] for column in tree["columnDefinitions"]] == ["Name", "Age"]


async def test_table_in_parts(client: Client) -> None:
    await client.post(CRONTABS_PATH, crontab("two"))
    meta = (await client.get(f"{CRONTABS_PATH}?limit=1", headers=accept("Table"))).json()["metadata"]
    assert meta.keys() == {"resourceVersion", "continue", "remainingItemCount"}


@pytest.mark.parametrize(
    ("include", "kind"),
    [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "CronTab"), ("None", None)],
)
async def test_what_rows_carry(client: Client, include: str, kind: str | None) -> None:
    tree = (await client.get(f"{CRONTABS_PATH}?includeObject={include}", headers=accept("Table"))).json()
    assert (tree["rows"][0].get("object") or {}).get("kind") == kind


async def test_rows_that_carry_nonsense(client: Client) -> None:
    answer = await client.get(f"{CRONTABS_PATH}?includeObject=All", headers=accept("Table"))
    assert answer.status == 400
    assert answer.message == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "All": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


async def test_table_of_a_scale(client: Client) -> None:
    tree = (await client.get(f"{ONE}/scale", headers=accept("Table"))).json()
    assert [column["name"] for column in tree["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert tree["rows"][0]["cells"][:3] == ["one", 3, 0]


async def test_partial_object_metadata(client: Client) -> None:
    tree = (await client.get(ONE, headers=accept("PartialObjectMetadata"))).json()
    assert tree.keys() == {"kind", "apiVersion", "metadata"}
    assert (tree["kind"], tree["metadata"]["uid"]) == ("PartialObjectMetadata", "uid-2")
    listed = (await client.get(CRONTABS_PATH, headers=accept("PartialObjectMetadataList"))).json()
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert listed["metadata"] == {"resourceVersion": "3"}
    assert listed["items"] == [tree]


async def test_errors_are_never_tables(client: Client) -> None:
    for headers in (accept("Table"), {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}, {"accept": "image/png"}):
        answer = await client.get(f"{CRONTABS_PATH}/two", headers=headers)
        assert answer.json()["kind"] == "Status"


async def test_yaml(client: Client) -> None:
    headers = {"accept": "application/yaml"}
    answer = await client.get(ONE, headers=headers)
    assert answer.header("content-type") == "application/yaml"
    assert answer.body.startswith(b"apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata:\n")
    assert b"cronSpec: '* * * * *'\n" in answer.body
    assert (await client.get(CRONTABS_PATH, headers=headers)).body.startswith(b"apiVersion: stable.example.com/v1\nitems:\n")
    missing = await client.get(f"{CRONTABS_PATH}/two", headers=headers)
    assert (missing.status, missing.header("content-type")) == (404, "application/yaml")
    assert b"reason: NotFound\n" in missing.body


PRETTY: dict[str, tuple[str, dict[str, str], bool]] = {
    "asked for": ("?pretty=true", {}, True),
    "in the media type": ("", {"accept": "application/json;pretty=1"}, True),
    "curl": ("", {"user-agent": "curl/8.0"}, True),
    "curl, but no": ("?pretty=false", {"user-agent": "curl/8.0"}, False),
    "kubectl": ("", {"user-agent": "kubectl/v1.36.3"}, False),
}


@pytest.mark.parametrize("name", PRETTY)
async def test_pretty(client: Client, name: str) -> None:
    query, headers, pretty = PRETTY[name]
    for target in (ONE, CRONTABS_PATH, f"{CRONTABS_PATH}/two"):
        answer = await client.get(target + query, headers=headers)
        assert (b'{\n  "' in answer.body) == pretty
        assert answer.json()


async def test_not_acceptable(client: Client) -> None:
    answer = await client.get(ONE, headers={"accept": "text/html"})
    assert (answer.status, answer.json()["reason"]) == (406, "NotAcceptable")
    types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    assert answer.message == f"only the following media types are accepted: {types}"


async def test_head(client: Client) -> None:
    for target in (ONE, CRONTABS_PATH, f"{CRONTABS_PATH}/two", "/nowhere", "/version"):
        got, head = await client.get(target), await client.request("HEAD", target)
        assert (head.status, head.body) == (got.status, b"")
        assert head.header("content-length") == got.header("content-length") == str(len(got.body))


# --- gzip ---


THRESHOLD = 128 * 1024


def large(name: str, size: int) -> Any:
    """A body whose answer from `get` is about so large."""
    return crontab(name, image="x" * size)


@pytest.mark.parametrize(
    ("header", "size", "packed"),
    [
        ("gzip", THRESHOLD, True),
        ("deflate, gzip", THRESHOLD, True),
        ("gzip;q=0", THRESHOLD, False),
        ("deflate", THRESHOLD, False),
        ("", THRESHOLD, False),
        ("gzip", 1000, False),
    ],
)
async def test_gzip(client: Client, header: str, size: int, packed: bool) -> None:
    await client.post(CRONTABS_PATH, large("two", size))
    plain = await client.get(f"{CRONTABS_PATH}/two")
    answer = await client.get(f"{CRONTABS_PATH}/two", headers={"accept-encoding": header})
    assert answer.header("content-encoding") == ("gzip" if packed else "")
    assert answer.header("vary") == ("Accept-Encoding" if packed else "")
    assert answer.header("content-length") == str(len(answer.body))
    assert (gzip.decompress(answer.body) if packed else answer.body) == plain.body
    assert json.loads(plain.body)["spec"]["image"] == "x" * size


@pytest.mark.parametrize("sizes", [(400_000,), (10,) * 4 + (400_000,) + (10,) * 4, (90_000,) * 7], ids=str)
@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_long_list_is_the_same_in_pieces(client: Client, sizes: tuple[int, ...], encoding: str) -> None:
    for number, size in enumerate(sizes):
        await client.post(CRONTABS_PATH, large(f"o{number}", size))
    answer = await client.get(CRONTABS_PATH, headers={"accept-encoding": encoding})
    assert answer.header("content-length") == str(len(answer.body))
    tree = json.loads(gzip.decompress(answer.body) if encoding else answer.body)
    assert (tree["kind"], tree["metadata"]) == ("CronTabList", {"resourceVersion": str(3 + len(sizes)), "continue": ""})
    assert [item["metadata"]["name"] for item in tree["items"]] == [*(f"o{number}" for number in range(len(sizes))), "one"]
    assert [len(item["spec"]["image"]) for item in tree["items"][:-1]] == list(sizes)


@pytest.mark.parametrize(("size", "packed"), [(THRESHOLD, False), (THRESHOLD + 1, True)])
async def test_the_threshold(size: int, packed: bool) -> None:
    whole = b"x" * (size - 10) + b"y" * 10
    for body in (whole, LongBody(size, lambda: iter((whole[:7], whole[7:])))):
        answer, headers = await compression.compressed(body, "gzip")
        assert bool(headers) == packed
        assert gzip.decompress(answer) == whole if packed else answer is body


async def test_errors_are_not_packed(client: Client) -> None:
    name = "a" * 200_000
    answer = await client.get(f"{CRONTABS_PATH}/{name}", headers={"accept-encoding": "gzip"})
    assert (answer.status, answer.header("content-encoding")) == (404, "")

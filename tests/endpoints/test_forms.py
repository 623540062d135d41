"""The forms of responses: Table, PartialObjectMetadata, YAML, indented JSON, HEAD, gzip."""

from __future__ import annotations

import gzip
import json
from random import Random
from typing import Any

import orjson
import pytest

from aggserver.endpoints import forms
from aggserver.endpoints.request import LongBody, Response
from aggserver.meta import codec, yaml_text
from aggserver.scheme import protobuf
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
    """An object whose response to a get has about this many bytes."""
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
    # A long list is compressed while it is sent, and has no Content-Length then, as upstream.
    assert answer.header("content-length") == ("" if encoding else str(len(answer.body)))
    tree = json.loads(gzip.decompress(answer.body) if encoding else answer.body)
    assert (tree["kind"], tree["metadata"]) == ("CronTabList", {"resourceVersion": str(3 + len(sizes)), "continue": ""})
    assert [item["metadata"]["name"] for item in tree["items"]] == [*(f"o{number}" for number in range(len(sizes))), "one"]
    assert [len(item["spec"]["image"]) for item in tree["items"][:-1]] == list(sizes)


def body_of(form: str, whole: bytes) -> bytes | LongBody:
    if form == "there":
        return whole
    parts = [whole[:7], *(whole[start : start + 50_000] for start in range(7, len(whole), 50_000))]
    return LongBody(len(whole) if form == "joined" else None, lambda: iter(parts))


@pytest.mark.parametrize(("size", "packed"), [(THRESHOLD, False), (THRESHOLD + 1, True)])
@pytest.mark.parametrize("form", ["there", "joined", "made"])
async def test_the_threshold(server: LocalServer, client: Client, size: int, packed: bool, form: str) -> None:
    whole = b"x" * (size - 10) + b"y" * 10

    async def handler(request: Any) -> Response:
        return Response(200, body_of(form, whole))

    server.handler = handler
    answer = await client.get("/x", headers={"accept-encoding": "gzip"})
    assert bool(answer.header("content-encoding")) == packed
    assert (gzip.decompress(answer.body) if packed else answer.body) == whole
    assert answer.header("content-length") == ("" if packed and form != "there" else str(len(answer.body)))


async def test_a_long_list_is_packed_in_pieces(client: Client) -> None:
    """Many lists at once don't take the memory of their bodies, also if clients ask for compressed ones, as client-go does."""
    random = Random(5)
    for number in range(12):
        await client.post(CRONTABS_PATH, crontab(f"o{number:02}", image=random.randbytes(100_000).hex()))
    exchange, pieces = await messages(client, CRONTABS_PATH, {"accept-encoding": "gzip"})
    assert dict(exchange.headers)[b"content-encoding"] == b"gzip"
    assert json.loads(gzip.decompress(b"".join(pieces)))["items"][11]["metadata"]["name"] == "o11"
    assert max(map(len, pieces)) < 400_000 < sum(map(len, pieces))


async def test_errors_are_not_packed(client: Client) -> None:
    name = "a" * 200_000
    answer = await client.get(f"{CRONTABS_PATH}/{name}", headers={"accept-encoding": "gzip"})
    assert (answer.status, answer.header("content-encoding")) == (404, "")


# --- long lists ---

LONG_FORMS: dict[str, dict[str, str]] = {
    "yaml": {"accept": "application/yaml"},
    "table": accept("Table"),
    "table as yaml": {"accept": "application/yaml;as=Table;g=meta.k8s.io;v=v1"},
    "metadata": accept("PartialObjectMetadataList"),
    "metadata as yaml": {"accept": "application/yaml;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
    "indented": {"user-agent": "curl/8.0"},
    "indented table": {**accept("Table"), "user-agent": "curl/8.0"},
}


# Sent in one piece, since protobuf begins with the length, though it is generated in several.
PROTOBUF = {"accept": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}


def annotated(name: str, notes: int) -> Any:
    """A CronTab of 200 KB, with this many annotations."""
    body = crontab(name)
    body["metadata"]["annotations"] = {f"note-{number}": "x" * (200_000 // notes) for number in range(notes)}
    return body


async def messages(client: Client, target: str, headers: dict[str, str]) -> tuple[Any, list[bytes]]:
    """The head of a response, and the pieces of its body."""
    exchange = client.send("GET", target, headers=headers)
    await exchange.start()
    pieces = []
    while piece := await exchange.piece():
        pieces.append(piece)
    await exchange.task
    return exchange, pieces


@pytest.mark.parametrize("form", LONG_FORMS)
async def test_a_long_list_is_made_in_pieces(client: Client, form: str) -> None:
    names = [f"o{number:02}" for number in range(12)]
    for name in names:
        await client.post(CRONTABS_PATH, annotated(name, 4))
    exchange, pieces = await messages(client, f"{CRONTABS_PATH}?includeObject=Object", LONG_FORMS[form])
    assert (exchange.status, b"content-length" in dict(exchange.headers)) == (200, False)
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 1_000_000
    text = b"".join(pieces)
    tree = yaml_text.decode(text)[0] if "yaml" in form else json.loads(text)
    entries = tree["rows" if "table" in form else "items"]
    objects = [entry["object"] if "table" in form else entry for entry in entries]
    assert [obj["metadata"]["name"] for obj in objects] == [*names, "one"]


@pytest.mark.parametrize("headers", [*LONG_FORMS.values(), PROTOBUF], ids=[*LONG_FORMS, "metadata as protobuf"])
async def test_a_list_is_the_same_long_and_short(
    client: Client, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        await client.post(CRONTABS_PATH, crontab(name))
    for query in ("", "?fieldSelector=metadata.name=nobody"):
        short = await client.get(CRONTABS_PATH + query, headers=headers)
        assert short.header("content-length") == str(len(short.body))
        with monkeypatch.context() as changed:
            for name in ("_LONG_YAML", "_LONG_INDENTED", "_LONG_CONVERTED"):
                changed.setattr(forms, name, -1)
            for name in ("_CONVERTED_BYTES", "_INDENTED_BYTES"):
                changed.setattr(forms, name, 1)
            assert (await client.get(CRONTABS_PATH + query, headers=headers)).body == short.body


async def test_a_list_in_protobuf_says_what_one_in_json_says(client: Client) -> None:
    for name in ("a", "b"):
        await client.post(CRONTABS_PATH, crontab(name))
    in_json = await client.get(CRONTABS_PATH, headers=LONG_FORMS["metadata"])
    in_protobuf = await client.get(CRONTABS_PATH, headers=PROTOBUF)
    assert in_protobuf.header("content-type") == "application/vnd.kubernetes.protobuf"
    assert in_protobuf.body == protobuf.encode(in_json.json())


async def test_an_indented_list_is_what_the_encoder_would_make_of_it_as_a_whole(client: Client) -> None:
    for target in (CRONTABS_PATH, f"{CRONTABS_PATH}?fieldSelector=metadata.name=nobody"):
        for headers in ({}, accept("Table"), accept("PartialObjectMetadataList")):
            tree = (await client.get(target, headers=headers)).json()
            indented = await client.get(f"{target}{'&' if '?' in target else '?'}pretty=true", headers=headers)
            assert indented.body == orjson.dumps(tree, option=orjson.OPT_INDENT_2)


async def test_a_large_object_as_yaml_is_made_in_pieces(client: Client) -> None:
    await client.post(CRONTABS_PATH, annotated("two", 1000))
    exchange, pieces = await messages(client, f"{CRONTABS_PATH}/two", {"accept": "application/yaml"})
    assert exchange.status == 200
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 64 * 1024
    assert b"".join(pieces) == codec.dump_yaml((await client.get(f"{CRONTABS_PATH}/two")).json())


async def test_other_requests_are_answered_while_a_list_is_made(server: LocalServer, client: Client) -> None:
    for number in range(10):
        await client.post(CRONTABS_PATH, large(f"o{number}", 200_000))
    before: list[int] = []
    for _ in range(3):
        exchange = client.send("GET", CRONTABS_PATH, headers={"accept": "application/yaml", "accept-encoding": "identity"})
        await exchange.start()
        await client.get("/version")
        # Some pieces were sent before: the response was not generated all at once.
        before.append(exchange.pending)
        while await exchange.piece():
            pass
        await exchange.task
    assert max(before) < 8

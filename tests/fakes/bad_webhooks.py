"""Conversion webhooks that do something wrong, by what it is, and GOOD, which does not.

Each is a function from the request to the response; they answer a ConversionReview whatever its version. Used against aggserver's
client alone, and against aggserver and kube-apiserver side by side.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

__all__ = ["BAD_ANSWERS", "BAD_OBJECTS", "BAD_RESPONSES", "ENDLESS", "HANGS", "Answer", "answered", "good", "review_of"]

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Review = dict[str, Any]


async def review_of(request: web.BaseRequest) -> Review:
    found: Review = json.loads(await request.read())
    return found


def converted(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """`hostPort` in v1 is `host` and `port` in v2."""
    made = {**copy.deepcopy(obj), "apiVersion": api_version}
    if api_version.endswith("/v2") and "hostPort" in made:
        made["host"], _, made["port"] = made.pop("hostPort").partition(":")
    elif api_version.endswith("/v1") and "host" in made:
        made["hostPort"] = f"{made.pop('host')}:{made.pop('port', '')}"
    return made


def answered(review: Review) -> Review:
    """The right answer to a review."""
    asked = review["request"]
    objects = [converted(obj, asked["desiredAPIVersion"]) for obj in asked["objects"]]
    response = {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


async def good(request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response(answered(await review_of(request)))


def _changed(change: Callable[[Review], Any]) -> Answer:
    """The right answer, changed; what `change` returns is sent instead, if it returns something."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        made = answered(await review_of(request))
        other = change(made)
        return web.json_response(made if other is None else other, dumps=_compact)

    return answer


def _object(change: Callable[[dict[str, Any]], Any]) -> Answer:
    """The right answer with its last object changed, or replaced by what `change` returns."""

    def apply(made: Review) -> None:
        objects = made["response"]["convertedObjects"]
        other = change(objects[-1])
        if other is not None:
            objects[-1] = other

    return _changed(apply)


def _says(status: int, body: str | bytes, kind: str, **headers: str) -> Answer:
    raw = body.encode() if isinstance(body, str) else body

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=raw, headers={"Content-Type": kind, **given})

    return answer


def _text(body: str) -> Answer:
    return _says(200, body, "application/json")


async def _hang(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def _close(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def _break_off(request: web.BaseRequest) -> web.StreamResponse:
    """Closes the connection in the middle of a body."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"apiVersion":')
    assert request.transport is not None
    request.transport.close()
    return response


async def _endless(request: web.BaseRequest) -> web.StreamResponse:
    """300 MB of white space."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for _ in range(300):
        await response.write(b" " * 1_000_000)
    return response


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets a member of an object; `...` removes it."""
    *parents, last = path.split(".")

    def apply(obj: dict[str, Any]) -> None:
        for name in parents:
            obj = obj[name]
        if value is ...:
            obj.pop(last, None)
        else:
            obj[last] = value

    return apply


STATUS = '{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no way","reason":"Forbidden","code":403}'
HTML = "<html><body>It works!</body></html>"

# What is wrong with the HTTP response.
BAD_RESPONSES: Mapping[str, Answer] = {
    "closes": _close,
    "breaks off": _break_off,
    "nothing": _text(""),
    "nothing, of another type": _says(200, "", "application/octet-stream"),
    "HTML": _says(200, HTML, "text/html; charset=utf-8"),
    "HTML as JSON": _text(HTML),
    "a text": _says(200, "hello", "text/plain"),
    "half of JSON": _text('{"apiVersion": '),
    "JSON with an error": _text('{"a": tru}'),
    "YAML with an error": _text("a: b: c"),
    "a number": _text("5"),
    "a string": _text('"hello"'),
    "a list": _text("[]"),
    "null": _text("null"),
    "an empty object": _text("{}"),
    "a type that can't be read": _says(200, "{}", "nonsense/"),
    "200 with a Status": _text(STATUS),
    "200 with a Status of success": _text('{"kind":"Status","apiVersion":"v1","status":"Success"}'),
    "500 and a text": _says(500, "  it broke\n", "text/plain"),
    "500 and HTML": _says(500, HTML, "text/html"),
    "500 and JSON": _says(500, '{"message":"it broke"}', "application/json"),
    "500 and a long text": _says(500, "no " * 1000, "text/plain"),
    "500 and nothing": _says(500, "", "application/octet-stream"),
    "500 and a Status": _says(500, STATUS, "application/json"),
    "500 and a Status as text": _says(500, STATUS, "text/plain"),
    "403 and a Status": _says(403, STATUS, "application/json"),
    "400": _says(400, "bad", "text/plain"),
    "401": _says(401, "who", "text/plain"),
    "403": _says(403, "not you", "text/plain"),
    "404": _says(404, "404 page not found\n", "text/plain"),
    "405": _says(405, "", "text/plain"),
    "406": _says(406, "", "application/json"),
    "409": _says(409, "", "text/plain"),
    "415": _says(415, "which", "text/plain"),
    "418": _says(418, "teapot", "text/plain"),
    "422": _says(422, "", "text/plain"),
    "429": _says(429, "", "text/plain"),
    "502": _says(502, "bad gateway", "text/html"),
    "503": _says(503, "", "text/plain"),
    "504": _says(504, "", "text/plain"),
    "204": _says(204, "", "application/octet-stream"),
    "304": _says(304, "", "application/octet-stream"),
    "redirects, and is asked with GET": _says(302, "", "text/plain", Location="/elsewhere"),
    "redirects for ever": _says(307, "", "text/plain", Location="/elsewhere"),
    "redirects to nowhere": _says(302, "", "text/plain"),
}

# What is wrong with the review in it.
BAD_ANSWERS: Mapping[str, Answer] = {
    "no response": _changed(_set("response", ...)),
    "response null": _changed(_set("response", None)),
    "response a text": _changed(_set("response", "yes")),
    "another uid": _changed(_set("response.uid", "1234")),
    "no uid": _changed(_set("response.uid", ...)),
    "a number for uid": _changed(_set("response.uid", 5)),
    "another kind": _changed(_set("kind", "AdmissionReview")),
    "no kind": _changed(_set("kind", ...)),
    "a list for a response": _changed(_set("response", [])),
    "a list for a kind": _changed(_set("kind", [])),
    "an odd version": _changed(_set("apiVersion", "a/b/c")),
    "a version without a group": _changed(_set("apiVersion", "v1")),
    "a group without a version": _changed(_set("apiVersion", "apiextensions.k8s.io/")),
    "a number for the message": _changed(_set("response.result", {"message": 5})),
    "result null": _changed(_set("response.result", None)),
    "another version": _changed(_set("apiVersion", "apiextensions.k8s.io/v1beta1")),
    "another group": _changed(_set("apiVersion", "example.com/v1")),
    "no version": _changed(_set("apiVersion", ...)),
    "a number for version": _changed(_set("apiVersion", 1)),
    "failure": _changed(_set("response.result", {"status": "Failed", "message": "hostPort could not be parsed"})),
    "failure without a message": _changed(_set("response.result", {"status": "Failed"})),
    "no result": _changed(_set("response.result", ...)),
    "result a text": _changed(_set("response.result", "Success")),
    "no objects": _changed(_set("response.convertedObjects", [])),
    "no list of objects": _changed(_set("response.convertedObjects", ...)),
    "objects not in a list": _changed(_set("response.convertedObjects", {})),
    "convertedObjects null": _changed(_set("response.convertedObjects", None)),
    "too few objects": _changed(lambda made: made["response"]["convertedObjects"].pop() and None),
    "too many objects": _changed(lambda made: made["response"]["convertedObjects"].append({"kind": "Extra"})),
    "the request again": _changed(lambda made: made | {"request": {"uid": 1}}),
}

# What is wrong with an object in the review.
BAD_OBJECTS: Mapping[str, Answer] = {
    "another name": _object(_set("metadata.name", "other")),
    "no name": _object(_set("metadata.name", ...)),
    "another namespace": _object(_set("metadata.namespace", "other")),
    "another object's uid": _object(_set("metadata.uid", "1234")),
    "another kind of object": _object(_set("kind", "Other")),
    "no kind of object": _object(_set("kind", ...)),
    "an object of another version": _object(_set("apiVersion", "example.com/v9")),
    "an object of no version": _object(_set("apiVersion", ...)),
    "an object of an odd version": _object(_set("apiVersion", "a/b/c")),
    "no metadata": _object(_set("metadata", ...)),
    "metadata null": _object(_set("metadata", None)),
    "metadata a text": _object(_set("metadata", "mine")),
    "labels a list": _object(_set("metadata.labels", [])),
    "a label that is a number": _object(_set("metadata.labels", {"a": 1})),
    "a label with an invalid value": _object(_set("metadata.labels", {"a": "b c"})),
    "a label with an invalid key and value": _object(_set("metadata.labels", {"a b": "c d"})),
    "an annotation with an invalid key": _object(_set("metadata.annotations", {"a b": "c"})),
    "annotations too large": _object(_set("metadata.annotations", {"a": "x" * (256 * 1024)})),
    "annotations a text": _object(_set("metadata.annotations", "yes")),
    "an annotation that is null": _object(_set("metadata.annotations", {"a": None})),
    "a text for an object": _object(lambda _: "hello"),
    "a list for an object": _object(lambda _: []),
    "an object of nothing": _object(lambda _: {}),
    "null for an object": _changed(_set("response.convertedObjects", [None])),
    "a number for a name": _object(_set("metadata.name", 5)),
    "a number for a kind": _object(_set("kind", 5)),
    "a label that is a fraction": _object(_set("metadata.labels", {"a": 1.5})),
    "a label that is a list": _object(_set("metadata.labels", {"a": []})),
    "a label that is an object": _object(_set("metadata.labels", {"a": {}})),
    "an annotation that is true": _object(_set("metadata.annotations", {"a": True})),
}

HANGS, ENDLESS = _hang, _endless

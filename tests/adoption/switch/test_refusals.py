"""What the guard's webhooks are answered, and that little of a review is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from aggserver.adoption.switch import refusals
from aggserver.adoption.switch.guard import PATH
from aggserver.adoption.switch.refusals import MAX_BYTES, refuse, refusing
from aggserver.endpoints.request import Handler, Request, Response
from aggserver.meta.errors import StatusError, unauthorized
from aggserver.options import Options
from tests.fakes.asgi import Client
from tests.fakes.clock import settled
from tests.fakes.server import LocalServer

# As kube-apiserver writes it, with its members in the order of Go's type.
REVIEW: dict[str, Any] = {
    "kind": "AdmissionReview",
    "apiVersion": "admission.k8s.io/v1",
    "request": {
        "uid": "7f-1",
        "kind": {"group": "stable.example.com", "version": "v1", "kind": "CronTab"},
        "resource": {"group": "stable.example.com", "version": "v1", "resource": "crontabs"},
        "subResource": "status",
        "requestKind": {"group": "stable.example.com", "version": "v1", "kind": "CronTab"},
        "requestResource": {"group": "stable.example.com", "version": "v1", "resource": "crontabs"},
        "requestSubResource": "status",
        "name": "a",
        "namespace": "team",
        "operation": "UPDATE",
        "userInfo": {"username": "alice", "extra": {"operation": ["x"]}},
        "object": {"kind": "CronTab", "spec": {"text": 'x,"operation":"y"'}},
        "oldObject": None,
        "dryRun": False,
        "options": None,
    },
}
TEXT = json.dumps(REVIEW, separators=(",", ":")).encode()
STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "crontabs.stable.example.com is moving between the cluster's etcd and aggserver, try again in a second",
    "reason": "ServiceUnavailable",
    "details": {"retryAfterSeconds": 1},
    "code": 503,
}
REFUSED = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": "7f-1", "allowed": False, "status": STATUS},
}


@pytest.mark.parametrize(
    "head",
    [TEXT, TEXT[: TEXT.index(b',"userInfo"')], json.dumps(REVIEW).encode(), json.dumps(REVIEW, sort_keys=True).encode()],
    ids=["whole", "head alone", "other spacing", "other order"],
)
def test_a_review_is_refused(head: bytes) -> None:
    assert refuse(head) == REFUSED


@pytest.mark.parametrize(
    "head",
    [b"", b"[]", b"{}", b"not json", b'{"request":null}', b'{"request":{"uid":"a"}}', b'{"request":[1]}', b'"a"', TEXT[:40]],
)
def test_what_is_no_review_is_a_bad_request(head: bytes) -> None:
    with pytest.raises(StatusError) as raised:
        refuse(head)
    assert raised.value.code == 400


async def ask(*chunks: bytes | None, method: str = "POST", path: str = PATH) -> Response | None:
    """The response of the filter; None if it has passed the request on. None among the chunks: the client disconnects."""

    async def on(_: Request) -> Any:
        return None

    parts = list(chunks)

    async def receive() -> Any:
        chunk = parts.pop(0)
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(parts)}

    scope = {"method": method, "path": path, "query_string": b"timeout=5s", "headers": [], "http_version": "1.1"}
    found = await refusing()(on)(Request(scope, receive))
    assert found is None or isinstance(found, Response)
    return found


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_the_body_may_come_in_pieces(size: int) -> None:
    answer = await ask(*(TEXT[start : start + size] for start in range(0, len(TEXT), size)))
    assert answer is not None
    assert isinstance(answer.body, bytes)
    assert (answer.status, json.loads(answer.body)) == (200, REFUSED)


async def test_a_large_object_is_passed_over() -> None:
    answer = await ask(TEXT[:-3], *([b" " * 100_000] * 80), TEXT[-3:])
    assert answer is not None
    assert answer.status == 200


async def test_a_larger_body_than_kube_apiserver_sends_is_refused() -> None:
    with pytest.raises(StatusError) as raised:
        await ask(TEXT, b" " * MAX_BYTES, b"never read")
    assert raised.value.code == 413


async def test_a_client_that_disconnects() -> None:
    with pytest.raises(StatusError) as raised:
        await ask(TEXT, None)
    assert raised.value.code == 400


@pytest.mark.parametrize(("method", "path"), [("GET", PATH), ("POST", f"{PATH}/"), ("POST", "/"), ("PUT", PATH)])
async def test_others_are_passed_on(method: str, path: str) -> None:
    assert await ask(TEXT, method=method, path=path) is None


async def test_the_answer_comes_before_authentication(server: LocalServer) -> None:
    class Nobody:
        async def authenticate(self, *_: Any, **__: Any) -> Any:
            raise unauthorized()

    options = Options(command="serve")
    app = server.engine.asgi(cast(Any, Nobody()), server.rules, options, before_authentication={"guard": refusing()})
    client = Client(app, None)
    answer = await client.request("POST", PATH, body=TEXT)
    assert (answer.status, json.loads(answer.body)) == (200, REFUSED)
    assert (await client.request("POST", PATH, body=b"{}")).status == 400
    assert (await client.request("GET", PATH)).status == 401


class Sender:
    """Sends a review up to some point, and then waits until it is told to send the rest."""

    def __init__(self, chain: Handler) -> None:
        self._chain = chain
        self._parts = [TEXT[:100]]
        self._rest = asyncio.Event()
        self.request = Request({"method": "POST", "path": PATH, "query_string": b"", "headers": [], "http_version": "1.1"}, self)
        self.task = asyncio.create_task(self._send())

    async def __call__(self) -> Any:
        if self._parts:
            return {"type": "http.request", "body": self._parts.pop(), "more_body": True}
        await self._rest.wait()
        return {"type": "http.request", "body": TEXT[100:], "more_body": False}

    def finish(self) -> None:
        self._rest.set()

    async def _send(self) -> int:
        try:
            answer = await self._chain(self.request)
        except StatusError as error:
            return error.code
        assert isinstance(answer, Response)
        return answer.status


async def nothing(_: Request) -> Any:
    raise AssertionError


async def test_no_more_reviews_are_on_their_way_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest makes room, and its connection ends."""
    monkeypatch.setattr(refusals, "MAX_REVIEWS", 3)
    chain = refusing()(nothing)
    senders = [Sender(chain) for _ in range(5)]
    await settled()
    assert [sender.task.done() for sender in senders] == [True, True, False, False, False]
    for sender in senders:
        sender.finish()
    assert [await sender.task for sender in senders] == [429, 429, 200, 200, 200]
    assert [sender.request.last_of_connection for sender in senders] == [True, True, False, False, False]
    again = [Sender(chain) for _ in range(3)]
    await settled()
    assert [sender.task.done() for sender in again] == [False] * 3  # those that were answered take no room
    for sender in again:
        sender.task.cancel()


async def test_a_review_that_takes_longer_than_kube_apiserver_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "WEBHOOK_SECONDS", 0)
    sender = Sender(refusing()(nothing))
    assert await sender.task == 429

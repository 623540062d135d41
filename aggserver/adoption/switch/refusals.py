"""Refusals: what this server answers to the guard's webhooks. `guard.py` makes the configuration that leads here.

Every review is refused, whatever it is about: kube-apiserver only asks about the resources that the configuration names. If this
process compared them with a list of its own, the list might be older than the configuration, for example in a replica that moves
nothing itself. A write that is let pass by mistake is lost; one that is refused by mistake is repeated by its client after a
second.

kube-apiserver calls webhooks without credentials, so the filter comes before authentication. Anybody may call it, and learns
nothing. Of a review only the head is kept, up to the user and the objects, so that refusing large objects takes no memory. The
server's limit of requests in flight does not apply before authentication, so the filter has its own: when it is reached, the
review that has been arriving for longest is given up, since kube-apiserver's reviews arrive within milliseconds.
Source: k8s.io/api admission/v1/types.go (the order of AdmissionRequest's members), v0.36.3.
"""

from __future__ import annotations

import asyncio

from aggserver.adoption.switch.guard import PATH, WEBHOOK_SECONDS
from aggserver.endpoints.request import AnyResponse, Filter, Handler, Request, Response
from aggserver.meta import codec, errors
from aggserver.meta.errors import qualified
from aggserver.meta.json_types import JSONObject

__all__ = ["RETRY_SECONDS", "refuse", "refusing"]

# Retry-After has whole seconds, and clients take 0 for "do not retry".
RETRY_SECONDS = 1

# The head has names and kinds only; each has a limit of its own, far below this.
HEAD_BYTES = 16 * 1024
# Two objects at the limit of request bodies, and what is around them.
MAX_BYTES = 8 * 1024 * 1024
# Reviews that may be arriving at once: three kube-apiservers, each with its usual 200 writes in flight. Their heads take 10 MB.
MAX_REVIEWS = 600
_END_OF_HEAD = b',"operation":'


def refusing() -> Filter:
    """Answers POST requests to the guard's path, and passes all others on."""
    coming: dict[asyncio.Timeout, None] = {}  # the reviews on their way, the oldest first

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            if request.path != PATH or request.method != "POST":
                return await next_handler(request)
            return Response(200, codec.encode_json(refuse(await _head_in_time(request, coming))))

        return handler

    return wrap


def refuse(head: bytes) -> JSONObject:
    """The AdmissionReview that refuses the request of another one. head: the beginning of that one's JSON, or all of it. Pure.

    Raises StatusError BadRequest.
    """
    known, cut, _ = head.partition(_END_OF_HEAD)
    try:
        asked = codec.decode_json(known + b"}}" if cut else head)["request"]
        uid, resource = str(asked["uid"]), asked["resource"]
        what = qualified(str(resource["resource"]), str(resource["group"]))
    except (codec.DecodeError, KeyError, TypeError) as error:
        raise errors.bad_request("the body is not an AdmissionReview with a request") from error
    refusal = errors.service_unavailable(
        f"{what} is moving between the cluster's etcd and aggserver, try again in a second", RETRY_SECONDS
    )
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": False, "status": refusal.status()},
    }


async def _head_in_time(request: Request, coming: dict[asyncio.Timeout, None]) -> bytes:
    """As `_head`. Raises 429 after the time that kube-apiserver waits for the answer, or earlier, to make room."""
    if len(coming) >= MAX_REVIEWS:
        oldest = next(iter(coming))
        del coming[oldest]
        if not oldest.expired():
            oldest.reschedule(asyncio.get_running_loop().time())
    try:
        async with asyncio.timeout(WEBHOOK_SECONDS) as limit:
            coming[limit] = None
            try:
                return await _head(request)
            finally:
                coming.pop(limit, None)
    except TimeoutError:
        request.last_of_connection = True  # the rest of the body is not read
        raise errors.too_many_requests() from None


async def _head(request: Request) -> bytes:
    """Read the whole body, and return its beginning. Raises 413, and BadRequest if the client disconnects."""
    head, size, more = b"", 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise errors.bad_request("the client disconnected before the end of the body")
        chunk = message.get("body", b"")
        head += chunk[: HEAD_BYTES - len(head)]
        size += len(chunk)
        if size > MAX_BYTES:
            raise errors.request_entity_too_large(f"limit is {MAX_BYTES}")
        more = message.get("more_body", False)
    return head

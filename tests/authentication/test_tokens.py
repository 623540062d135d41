from __future__ import annotations

import asyncio
import base64
import logging
from typing import Any

import pytest

from aggserver.authentication.tokens import TokenError, TokenReviewer, bearer_token, websocket_token
from aggserver.authentication.user import UserInfo
from aggserver.cluster import ClusterError, Unreachable
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster, status

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
PREFIX = b"base64url.bearer.authorization.k8s.io."


@pytest.mark.parametrize(
    ("value", "token"),
    [
        pytest.param(None, "", id="none"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b"Bearer abc", "abc", id="token"),
        pytest.param(b"  bEARER abc  ", "abc", id="any case, trimmed"),
        pytest.param(b"Bearer abc def", "abc", id="what follows is ignored"),
        pytest.param(b"Bearer", "", id="no token"),
        pytest.param(b"Bearer  abc", "", id="an extra space"),
        pytest.param(b"Basic abc", "", id="another scheme"),
    ],
)
def test_bearer_token(value: bytes | None, token: str) -> None:
    headers = [(b"accept", b"*/*"), *([(b"authorization", value)] if value is not None else [])]
    assert bearer_token(headers) == token


def protocols(*values: bytes, upgrade: bytes = b"websocket") -> list[tuple[bytes, bytes]]:
    return [
        (b"connection", b"keep-alive, Upgrade"),
        (b"upgrade", upgrade),
        *((b"sec-websocket-protocol", value) for value in values),
    ]


def encoded(token: str) -> bytes:
    return PREFIX + base64.urlsafe_b64encode(token.encode()).rstrip(b"=")


class TestWebsocketToken:
    def test_is_taken_out_of_the_protocols(self) -> None:
        token, rest = websocket_token(protocols(b"v5.channel.k8s.io, " + encoded("t-1?>"), b"v4.channel.k8s.io"))
        assert token == "t-1?>"
        assert rest[-1] == (b"sec-websocket-protocol", b"v5.channel.k8s.io,v4.channel.k8s.io")
        assert len(rest) == 3

    @pytest.mark.parametrize(
        "headers",
        [
            pytest.param([], id="no headers"),
            pytest.param(protocols(b"v5.channel.k8s.io"), id="no token"),
            pytest.param(protocols(PREFIX + b", x"), id="empty token"),
            pytest.param(protocols(encoded("t") + b", x", upgrade=b"spdy/3.1"), id="no websocket"),
            pytest.param([(b"upgrade", b"websocket"), (b"sec-websocket-protocol", encoded("t"))], id="no connection header"),
        ],
    )
    def test_nothing_there(self, headers: list[tuple[bytes, bytes]]) -> None:
        assert websocket_token(headers) == ("", headers)

    @pytest.mark.parametrize(
        ("values", "text"),
        [
            pytest.param((encoded("a"), encoded("b"), b"x"), "multiple base64.bearer.authorization tokens specified", id="two"),
            pytest.param((encoded("a"),), "missing additional subprotocol", id="nothing else"),
            pytest.param((PREFIX + b"a$b", b"x"), "invalid base64.bearer.authorization token encoding", id="foreign characters"),
            pytest.param((PREFIX + b"YQ==", b"x"), "invalid base64.bearer.authorization token encoding", id="padded"),
            pytest.param((PREFIX + b"_w", b"x"), "invalid base64.bearer.authorization token$", id="no UTF-8"),
        ],
    )
    def test_refused(self, values: tuple[bytes, ...], text: str) -> None:
        with pytest.raises(TokenError, match=text):
            websocket_token(protocols(*values))


class Reviews:
    """A fake API server for TokenReview: the review of each token."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.clock = FakeClock()
        self.known: dict[str, dict[str, Any]] = {}
        self.cluster.on("POST", PATH, self.answer)
        self.reviewer = TokenReviewer(self.cluster, clock=self.clock, sleep=self.clock.sleep, random=lambda: 0.0)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "status": self.known.get(body["spec"]["token"], {"error": "[invalid bearer token]"})}

    @property
    def asked(self) -> int:
        return len(self.cluster.calls)


async def test_a_user_with_everything() -> None:
    reviews = Reviews()
    user = {"username": "system:serviceaccount:ns:sa", "uid": "u", "groups": ["g", "h"], "extra": {"k": ["v", "w"]}}
    reviews.known["t"] = {"authenticated": True, "user": user}
    assert await reviews.reviewer.review("t") == UserInfo("system:serviceaccount:ns:sa", "u", ("g", "h"), {"k": ("v", "w")})
    assert reviews.cluster.bodies[0]["spec"] == {"token": "t"}


async def test_yes_and_no_hold_for_ten_seconds() -> None:
    reviews = Reviews()
    reviews.known["good"] = {"authenticated": True, "user": {"username": "u"}}
    for expected in (2, 2, 4):
        await reviews.reviewer.review("good")
        with pytest.raises(TokenError, match="invalid bearer token"):
            await reviews.reviewer.review("bad")
        assert reviews.asked == expected
        reviews.clock.advance(5.0)


async def test_a_refusal_without_words_gets_the_usual_ones() -> None:
    reviews = Reviews()
    reviews.known["t"] = {"authenticated": False}
    with pytest.raises(TokenError, match=r"^invalid bearer token$"):
        await reviews.reviewer.review("t")


async def test_equal_tokens_at_once_are_one_question() -> None:
    reviews = Reviews()
    reviews.known["t"] = {"authenticated": True, "user": {"username": "u"}}
    users = await asyncio.gather(*(reviews.reviewer.review("t") for _ in range(10)))
    assert {user.name for user in users} == {"u"}
    assert reviews.asked == 1


@pytest.mark.parametrize(
    ("error", "slept"),
    [
        pytest.param(status(500, "InternalError"), [0.5, 0.75, 1.125, 1.6875], id="sick"),
        pytest.param(status(403, "Forbidden"), [], id="not allowed to ask"),
        pytest.param(Unreachable("refused"), [], id="not there"),
    ],
)
async def test_failures_to_ask_are_not_kept(error: ClusterError | Unreachable, slept: list[float]) -> None:
    reviews = Reviews()
    reviews.known["t"] = {"authenticated": True, "user": {"username": "u"}}
    reviews.cluster.fail("POST", PATH, error, times=len(slept) + 1)
    with pytest.raises(TokenError, match="the token could not be reviewed: "):
        await reviews.reviewer.review("t")
    assert reviews.clock.slept == slept
    assert (await reviews.reviewer.review("t")).name == "u"


async def test_tokens_are_neither_kept_nor_logged_nor_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    reviews = Reviews()
    with pytest.raises(TokenError) as caught:
        await reviews.reviewer.review("very-secret")
    assert "very-secret" not in str(caught.value) + caplog.text
    assert "very-secret" not in repr(vars(reviews.reviewer._answers))

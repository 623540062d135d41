"""AccountTokens: a token as it is examined again and again, while its objects change and the time passes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from aggserver.authentication import account_tokens, jws
from aggserver.authentication.account_tokens import AccountTokens
from aggserver.authentication.jws import SigningKey, VerifyingKey
from aggserver.authentication.service_accounts import Name, Ref, issued
from aggserver.authentication.tokens import TokenError
from aggserver.meta.times import format_time

KEY = jws.signing_key(jws.new_key())
BOB = Name("serviceaccounts", "ns", "bob")
START = 1_800_000_000.0


@dataclasses.dataclass
class Stored:
    revision: int
    tree: dict[str, Any]
    decodings: int = 0

    def decoded(self) -> dict[str, Any]:
        self.decodings += 1
        return self.tree


class World:
    """The objects and the time, and the tokens that are examined in it."""

    def __init__(self) -> None:
        self.objects: dict[Name, Stored] = {BOB: Stored(7, {"metadata": {"uid": "u1"}})}
        self.now = START
        self.tokens = AccountTokens([KEY.public], ["https://a", "https://b"], ["us"], self.find, lambda: self.now)

    async def find(self, name: Name) -> Stored | None:
        return self.objects.get(name)

    def token(self, issuer: str = "https://a", key: SigningKey = KEY, **more: Any) -> str:
        claims = issued(issuer, "ns", Ref("bob", "u1"), {}, ["us"], now=START, seconds=3600, warn_after=0, token_id="1")
        return jws.sign(key, claims | more)

    async def said(self, token: str, *audiences: str) -> str:
        """The user, or why there is none."""
        try:
            user, _ = await self.tokens.review(token, audiences)
        except TokenError as error:
            return str(error)
        return user.name


@pytest.fixture
def world() -> World:
    return World()


async def test_a_valid_token(world: World) -> None:
    user, audiences = await world.tokens.review(world.token())
    assert (user.name, user.uid, audiences) == ("system:serviceaccount:ns:bob", "u1", ("us",))
    assert await world.said(world.token("https://b")) == "system:serviceaccount:ns:bob"


async def test_it_costs_nothing_the_second_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = world.token()
    await world.said(token)
    monkeypatch.setattr(VerifyingKey, "accepts", None)
    assert await world.said(token) == "system:serviceaccount:ns:bob"
    assert world.objects[BOB].decodings == 1


async def test_a_changed_account_is_looked_at_again(world: World) -> None:
    token = world.token()
    await world.said(token)
    world.objects[BOB] = Stored(8, {"metadata": {"uid": "u1"}})
    assert await world.said(token) == "system:serviceaccount:ns:bob"
    world.objects[BOB] = Stored(9, {"metadata": {"uid": "u2"}})
    assert await world.said(token) == "[invalid bearer token, service account UID (u2) does not match claim (u1)]"
    del world.objects[BOB]
    assert await world.said(token) == '[invalid bearer token, serviceaccounts "bob" not found]'


async def test_an_account_that_waits_for_its_finalizers(world: World) -> None:
    token = world.token()
    world.objects[BOB] = Stored(8, {"metadata": {"uid": "u1", "deletionTimestamp": format_time(START)}})
    assert await world.said(token) == "system:serviceaccount:ns:bob"
    world.now = START + 61
    assert await world.said(token) == "[invalid bearer token, service account ns/bob has been deleted]"


async def test_it_ends(world: World) -> None:
    token = world.token()
    await world.said(token)
    world.now = START + 3661
    assert await world.said(token) == "[invalid bearer token, service account token has expired]"


async def test_audiences(world: World) -> None:
    token = world.token(aud=["them"])
    text = 'token audiences ["them"] is invalid for the target audiences ["us"]'
    assert await world.said(token) == f"[invalid bearer token, {text}]"
    assert (await world.tokens.review(token, ["them", "others"]))[1] == ("them",)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("abc", "invalid bearer token"),
        (World().token("https://others"), "invalid bearer token"),
        (World().token(iss=["https://a"]), "invalid bearer token"),
        (World().token(key=jws.signing_key(jws.new_key())), "[invalid bearer token, invalid signature, no keys found]"),
        (World().token()[:-8] + "AAAAAAAA", "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"),
        ("\ud800.a.b", "invalid bearer token"),
    ],
    ids=["no token", "another issuer", "a list as issuer", "another key", "another signature", "half a character"],
)
async def test_what_is_not_ours(world: World, token: str, why: str) -> None:
    assert await world.said(token) == why


async def test_what_is_remembered_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_tokens, "KEPT_TOKENS", 2)
    tokens = [world.token(jti=str(number)) for number in range(3)]
    for token in tokens:
        await world.said(token)
    assert len(world.tokens._verified) == 2
    assert await world.said(tokens[0]) == "system:serviceaccount:ns:bob"

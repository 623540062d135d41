"""Secrets of type kubernetes.io/service-account-token: filled, completed, and deleted with their ServiceAccount."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aggserver.authentication import jws
from aggserver.authentication.account_tokens import AccountTokens
from aggserver.authentication.service_accounts import Name, Ref
from aggserver.authentication.tokens import TokenError
from aggserver.controllers.token_secrets import Missing, TokenSecretsController, account_name, filled, is_orphan, missing
from aggserver.informers.informer import ALL
from aggserver.kinds.served import Kinds
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from tests.fakes.server import ADMIN, LocalServer
from tests.fakes.work import longest_turn

KEY = jws.signing_key(jws.new_key())
TYPE, NAME, UID = (
    "kubernetes.io/service-account-token",
    "kubernetes.io/service-account.name",
    "kubernetes.io/service-account.uid",
)
CONTEXT = Context(ADMIN, "default")


def secret(annotations: dict[str, str], **more: Any) -> dict[str, Any]:
    metadata = {"name": "s", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE, **more}


def test_whose_a_secret_is() -> None:
    assert account_name(secret({NAME: "bob"})) == "bob"
    assert account_name(secret({NAME: "bob"}, type="Opaque")) == ""
    assert account_name({"metadata": {}, "type": TYPE}) == ""


ACCOUNT = {"metadata": {"name": "bob", "uid": "1"}}


@pytest.mark.parametrize(
    ("annotations", "account", "orphan"),
    [({NAME: "bob"}, ACCOUNT, False), ({UID: "1"}, ACCOUNT, False), ({UID: "2"}, ACCOUNT, True), ({UID: "1"}, None, True)],
    ids=["new", "its own", "of another", "of nobody"],
)
def test_orphans(annotations: dict[str, str], account: Any, orphan: bool) -> None:
    assert is_orphan(secret(annotations), account) is orphan


def test_what_is_missing() -> None:
    assert missing(secret({}), "Q0E=") == Missing(ca=True, namespace=True, token=True)
    assert missing(secret({}, data={"ca.crt": "eA==", "namespace": "eA==", "token": ""}), "Q0E=") == Missing(True, False, True)
    assert not any(missing(secret({}, data={"ca.crt": "Q0E=", "namespace": "eA==", "token": "eA=="}), "Q0E="))


@pytest.mark.parametrize(
    "changed",
    [
        secret({NAME: "eve"}),
        secret({NAME: "bob"}, type="Opaque"),
        secret({NAME: "bob"}, data={"ca.crt": "Q0E=", "namespace": "eA==", "token": "eA=="}),
    ],
    ids=["for another", "of another type", "filled"],
)
async def test_one_that_has_changed_meanwhile_stays_as_it_is(changed: dict[str, Any]) -> None:
    assert await filled(changed, Ref("bob", "1"), "Q0E=", KEY) is changed


class World:
    """The stores and the controller, which runs."""

    def __init__(self, server: LocalServer) -> None:
        kinds = Kinds(server.environment, server.engine.admission)
        self.server = server
        self.kinds = kinds
        self.secrets, self.accounts = kinds.store("", "secrets"), kinds.store("", "serviceaccounts")

        async def key() -> jws.SigningKey:
            return KEY

        later = server.timers.call_later
        self.controller = TokenSecretsController(self.secrets, self.accounts, key, lambda: b"CA", later)

    async def make(self, store: Store, obj: dict[str, Any]) -> Any:
        return (await store.create(WriteRequest(CONTEXT, WriteOptions()), obj)).decoded()

    async def account(self, name: str = "bob") -> Any:
        return await self.make(self.accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})

    async def seen(self, store: Store, name: str, like: Callable[[Any], bool]) -> Any:
        """The object, or None if it is gone, once it is so."""
        for _ in range(1000):
            listed = (await store.list(CONTEXT, ALL)).items
            tree = next((each for obj in listed if (each := obj.decoded())["metadata"]["name"] == name), None)
            if like(tree):
                return tree
            await asyncio.sleep(0)
        raise AssertionError("nothing happens")


@pytest.fixture
async def world(server: LocalServer) -> AsyncIterator[World]:
    made = World(server)
    task = asyncio.create_task(made.controller.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    made.kinds.end_watches()


def is_filled(tree: Any) -> bool:
    return tree is not None and "token" in (tree.get("data") or {})


async def test_filled(world: World) -> None:
    account = await world.account()
    await world.make(world.secrets, secret({NAME: "bob"}, data={"mine": "eA=="}))
    tree = await world.seen(world.secrets, "s", is_filled)
    data = {name: base64.b64decode(value) for name, value in tree["data"].items()}
    token = data.pop("token").decode()
    assert data == {"mine": b"x", "ca.crt": b"CA", "namespace": b"default"}
    assert tree["metadata"]["annotations"] == {NAME: "bob", UID: account["metadata"]["uid"]}

    async def find(name: Name) -> Any:
        return world.kinds.store("", name.resource).known(name.namespace, name.name)

    tokens = AccountTokens([KEY.public], [], ["us"], find, world.server.clock)
    user, audiences = await tokens.review(token)
    assert (user.name, user.extra, audiences) == ("system:serviceaccount:default:bob", {}, ("us",))
    await world.secrets.delete(CONTEXT, "s", DeleteOptions())
    with pytest.raises(TokenError, match="Token has been invalidated"):
        await tokens.review(token)


async def test_a_token_that_is_taken_away_comes_again(world: World) -> None:
    await world.account()
    await world.make(world.secrets, secret({NAME: "bob"}))
    await world.seen(world.secrets, "s", is_filled)

    async def emptied(tree: Any) -> Any:
        return {**tree, "data": {}}

    await world.secrets.update(WriteRequest(CONTEXT, WriteOptions()), "s", emptied)
    assert is_filled(await world.seen(world.secrets, "s", is_filled))


async def test_deleted_with_its_account(world: World) -> None:
    await world.account()
    await world.account("eve")
    await world.make(world.secrets, secret({NAME: "bob"}))
    of_eve = secret({NAME: "eve"})
    of_eve["metadata"]["name"] = "other"
    await world.make(world.secrets, of_eve)
    await world.seen(world.secrets, "s", is_filled)
    await world.accounts.delete(CONTEXT, "bob", DeleteOptions())
    assert await world.seen(world.secrets, "s", lambda tree: tree is None) is None
    assert is_filled(await world.seen(world.secrets, "other", is_filled))


async def test_one_for_nobody_is_deleted(world: World) -> None:
    await world.make(world.secrets, secret({NAME: "nobody"}))
    assert await world.seen(world.secrets, "s", lambda tree: tree is None) is None


async def test_others_are_left_alone(world: World) -> None:
    await world.account()
    plain = secret({NAME: "bob"}, type="Opaque")
    plain["metadata"]["name"] = "plain"
    await world.make(world.secrets, plain)
    await world.make(world.secrets, secret({NAME: "bob"}))
    await world.seen(world.secrets, "s", is_filled)
    assert "data" not in (await world.secrets.get(CONTEXT, "plain")).decoded()


async def test_secrets_are_looked_up_by_their_accounts(world: World) -> None:
    """After an account has changed, no others' Secrets are gone through."""
    controller = world.controller
    for number in range(2000):
        key, obj = f"default/s{number}", secret({NAME: f"a{number}"})
        controller._of_secrets.objects[key] = obj
        controller._index(key, obj)
    controller._index("default/s1", None)
    controller._index("default/s3", secret({NAME: "a2"}))
    assert await longest_turn(controller._look_again("default/a5", None)) < 500
    assert (controller._named["default/a2"], "default/a1" in controller._named) == (
        {"default/s2": None, "default/s3": None},
        False,
    )

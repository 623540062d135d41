"""Fills Secrets of type kubernetes.io/service-account-token with tokens, as kube-controller-manager's token controller does.

Such a Secret names its ServiceAccount in an annotation. It gets a token that does not expire, the CA bundle of the server and the
namespace; it is deleted with the ServiceAccount.
Source: k8s.io/kubernetes pkg/controller/serviceaccount/tokens_controller.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aggserver.authentication.jws import SigningKey, sign
from aggserver.authentication.service_accounts import Ref, issued_in_secret
from aggserver.informers.informer import CONTROLLER, CallLater, Informer, call_later
from aggserver.informers.work_queue import in_turns
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store

__all__ = ["Missing", "TokenSecretsController", "account_name", "filled", "is_orphan", "missing"]

_TYPE = "kubernetes.io/service-account-token"
_NAME, _UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_WRITE = WriteOptions(field_manager="aggserver")
_ENQUEUED = 1000  # Secrets of one ServiceAccount that are looked up before other tasks run


class Missing(NamedTuple):
    """Which data a Secret lacks."""

    ca: bool
    namespace: bool
    token: bool


def account_name(secret: JSONObject) -> str:
    """The ServiceAccount that a Secret is for; '' for a Secret of another type."""
    name: str = (secret["metadata"].get("annotations") or {}).get(_NAME) or ""
    return name if secret.get("type") == _TYPE else ""


def is_orphan(secret: JSONObject, account: JSONObject | None) -> bool:
    """Whether the ServiceAccount of the Secret is gone, or another one has its name."""
    uid = (secret["metadata"].get("annotations") or {}).get(_UID)
    return account is None or bool(uid and uid != account["metadata"]["uid"])


def missing(secret: JSONObject, ca: str) -> Missing:
    """Which data a Secret lacks. ca: the bundle in base64."""
    data = secret.get("data") or {}
    return Missing(data.get("ca.crt") != ca, not data.get("namespace"), not data.get("token"))


class TokenSecretsController:
    """The controller. secrets, accounts: the stores. key: returns the signing key, made at its first use. ca_bundle: PEM."""

    def __init__(
        self,
        secrets: Store,
        accounts: Store,
        key: Callable[[], Awaitable[SigningKey]],
        ca_bundle: Callable[[], bytes],
        later: CallLater = call_later,
    ) -> None:
        self._secrets = secrets
        self._accounts = accounts
        self._key = key
        self._ca_bundle = ca_bundle
        self._of_secrets = Informer(secrets, self._sync, later)
        self._of_accounts = Informer(accounts, self._look_again, later)
        self._named: dict[str, dict[str, None]] = {}  # the keys of Secrets by the key of the ServiceAccount that they name
        self._names: dict[str, str] = {}  # the key of the ServiceAccount by the key of the Secret

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._of_accounts.run())
            await self._of_accounts.caught_up()
            tasks.create_task(self._of_secrets.run())

    async def _look_again(self, key: str, account: JSONObject | None) -> float | None:
        """Enqueue the Secrets that name a ServiceAccount, after it was created or deleted."""
        async for secret in in_turns(list(self._named.get(key, ())), _ENQUEUED):
            self._of_secrets.enqueue(secret)
        return None

    def _index(self, key: str, secret: JSONObject | None) -> None:
        """Remember which ServiceAccount a Secret names."""
        before, name = self._names.pop(key, ""), account_name(secret) if secret is not None else ""
        if before:
            del self._named[before][key]
            if not self._named[before]:
                del self._named[before]
        if name:
            account = self._names[key] = f"{key.partition('/')[0]}/{name}"
            self._named.setdefault(account, {})[key] = None

    async def _sync(self, key: str, secret: JSONObject | None) -> float | None:
        self._index(key, secret)
        if secret is None or not account_name(secret) or secret["metadata"].get("deletionTimestamp"):
            return None
        namespace, _, name = key.partition("/")
        context = Context(CONTROLLER, namespace)
        account = await self._account(context, account_name(secret))
        if account is None or is_orphan(secret, account):
            await self._secrets.delete(context, name, DeleteOptions(uid=secret["metadata"]["uid"]))
            return None
        ca = base64.b64encode(self._ca_bundle()).decode()
        if any(missing(secret, ca)):
            of = Ref(account["metadata"]["name"], account["metadata"]["uid"])
            signing = await self._key()
            await self._secrets.update(WriteRequest(context, _WRITE), name, lambda current: filled(current, of, ca, signing))
        return None

    async def _account(self, context: Context, name: str) -> JSONObject | None:
        found = await self._accounts.find(context, name)
        return None if found is None else found.decoded()


async def filled(secret: JSONObject, account: Ref, ca: str, key: SigningKey) -> JSONObject:
    """The Secret with the data that it lacks; unchanged if it names another ServiceAccount now. ca: the bundle in base64."""
    lacks = missing(secret, ca)
    if account_name(secret) != account.name or not any(lacks):
        return secret
    metadata = secret["metadata"]
    namespace = metadata["namespace"]
    data = dict(secret.get("data") or {})
    if lacks.ca:
        data["ca.crt"] = ca
    if lacks.namespace:
        data["namespace"] = base64.b64encode(namespace.encode()).decode()
    if lacks.token:
        token = sign(key, issued_in_secret(namespace, account, metadata["name"]))
        data["token"] = base64.b64encode(token.encode()).decode()
    annotations = {**(metadata.get("annotations") or {}), _NAME: account.name, _UID: account.uid}
    return {**secret, "metadata": {**metadata, "annotations": annotations}, "data": data}

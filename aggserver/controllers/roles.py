"""Keeps the roles and bindings of a server without a cluster complete, aggregates them, and follows them for the authorizer.

Nothing is read before it is needed: for a user who is no administrator, or a request for one of the four kinds. Then the
bootstrap objects that are missing are written, those that were changed get back what they lack (unless annotated with
`rbac.authorization.kubernetes.io/autoupdate: "false"`), and all objects are followed from then on. ClusterRoles that aggregate
others get their rules from them with every change.
Source: k8s.io/kubernetes pkg/registry/rbac/rest/storage_rbac.go (the post-start hook), pkg/controller/clusterroleaggregation,
v1.36.3; k8s.io/component-helpers auth/rbac/reconciliation, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from aggserver.endpoints.request import AnyResponse, Handler, Request
from aggserver.informers.informer import CONTROLLER, CallLater, Informer, call_later
from aggserver.informers.work_queue import in_turns
from aggserver.meta import codec, errors
from aggserver.meta.backoff import Backoff
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.registry.rest import ApplyConfiguration, Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.unreadable import Unreadable

if TYPE_CHECKING:
    from aggserver.authorization.aggregation import Aggregation
    from aggserver.authorization.rbac import Policy

__all__ = ["GROUP", "RoleController"]

log = logging.getLogger("aggserver.controllers")

GROUP = "rbac.authorization.k8s.io"
_KINDS = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
_BOOTSTRAP = WriteOptions(field_manager="kube-apiserver", bounded=False)
_AGGREGATION = WriteOptions(field_manager="clusterrole-aggregation-controller", force=True, bounded=False)
# Seconds that a request waits for the roles to be read before it fails.
_WAIT_SECONDS = 20.0
# Rules or subjects that are added to the policy before other tasks run: about a millisecond.
_STEPS = 500
# If all ClusterRoles together have more rules and selectors than this, they are aggregated in a thread. Bootstrap has hundreds.
_LONG = 5000
# An existing bootstrap object with more rules, selectors and subjects than this is compared in a thread.
_MANY = 200
# Codes of refusals that trying again would not change: not valid, not allowed, too large.
_REFUSED = (400, 403, 413, 422)
# Seconds before what could not be written is tried again.
_RETRY = Backoff(initial=0.1, longest=10.0)


class RoleController:
    """The controller; `run` is its task.

    stores: returns the store of (group, resource). aggregates: whether ClusterRoles get the rules of others.
    """

    def __init__(
        self,
        stores: Callable[[str, str], Store],
        later: CallLater = call_later,
        *,
        aggregates: bool = True,
    ) -> None:
        self._stores = stores
        self._later = later
        self._aggregates = aggregates
        self._wanted = asyncio.Event()
        self._ready: asyncio.Future[Policy] | None = None
        self._cluster_roles: Mapping[str, JSONObject] = {}
        self._aggregation: Aggregation | None = None  # None until all roles are known: else a role could lose rules
        self._aggregating = asyncio.Lock()

    async def policy(self) -> Policy:
        """The roles and bindings, once they are read. Raises StatusError (500) if that takes too long."""
        self._wanted.set()
        ready = self._waited_for()
        if not ready.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ready), _WAIT_SECONDS)
        if not ready.done():
            raise errors.internal_error("the roles and bindings could not be read")
        return ready.result()

    def before(self, next_handler: Handler) -> Handler:
        """A filter that makes requests for the four kinds wait until the bootstrap objects are written."""

        async def after_all_is_there(request: Request) -> AnyResponse:
            await self.policy()
            return await next_handler(request)

        def handler(request: Request) -> Awaitable[AnyResponse]:
            # Not a coroutine function, which would make every other request slower.
            return after_all_is_there(request) if request.info.group == GROUP else next_handler(request)

        return handler

    async def run(self) -> None:
        """Keep the roles up to date until cancelled."""
        await self._wanted.wait()
        await self._reconcile()
        try:
            await self._follow()
        finally:
            # The policy is not kept up to date any more.
            self._aggregation = None
            if self._ready is not None and self._ready.done():
                self._ready = None

    def _waited_for(self) -> asyncio.Future[Policy]:
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
        return self._ready

    # --- following ---

    async def _follow(self) -> None:
        from aggserver.authorization.rbac import Policy

        policy = Policy()
        informers = {kind: Informer(self._store(kind), partial(self._sync, kind, policy), self._later) for kind in _KINDS}
        async with asyncio.TaskGroup() as tasks:
            for informer in informers.values():
                tasks.create_task(informer.run())
            for informer in informers.values():
                await informer.caught_up()
            if self._aggregates:
                self._cluster_roles = informers["ClusterRole"].objects
                await self._aggregate()
            self._waited_for().set_result(policy)

    async def _sync(self, kind: str, policy: Policy, key: str, obj: JSONObject | None) -> float | None:
        namespace, _, name = key.rpartition("/")
        async for _ in in_turns(policy.removing(kind, namespace, name) if obj is None else policy.putting(obj), _STEPS):
            pass
        if kind == "ClusterRole" and self._aggregates and self._concerns_others(key, obj):
            await self._aggregate()
        return None

    def _concerns_others(self, name: str, role: JSONObject | None) -> bool:
        """Whether a change of a ClusterRole may change aggregated ones. Always True while an aggregation is being made."""
        return self._aggregating.locked() or (self._aggregation is not None and self._aggregation.concerns(name, role))

    async def _aggregate(self) -> None:
        from aggserver.authorization.aggregation import Aggregation

        async with self._aggregating:
            roles = list(self._cluster_roles.values())
            if sum(_weight(role) for role in roles) > _LONG:
                self._aggregation = await asyncio.to_thread(Aggregation, roles)
            else:
                self._aggregation = Aggregation(roles)
            await self._apply(self._aggregation.changed)

    async def _apply(self, changed: Mapping[str, list[JSONObject]]) -> None:
        for name, rules in changed.items():
            role = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
            configuration = ApplyConfiguration(codec.encode_json(role | ({"rules": rules} if rules else {})))
            await self._store("ClusterRole").apply(WriteRequest(Context(CONTROLLER), _AGGREGATION), name, configuration)

    def _store(self, kind: str) -> Store:
        return self._stores(GROUP, f"{kind.lower()}s")

    # --- bootstrap objects ---

    async def _reconcile(self) -> None:
        from aggserver.authorization import bootstrap

        objects = bootstrap.objects()
        if not self._aggregates:
            objects = [{name: value for name, value in obj.items() if not _is_aggregated(obj, name)} for obj in objects]
        for pause in _RETRY.pauses():
            failed = await self._reconcile_all(objects)
            if not failed:
                return
            log.warning("%d bootstrap roles and bindings could not be written; trying again in %.1f s", failed, pause)
            over = asyncio.Event()
            self._later(pause, over.set)
            await over.wait()

    async def _reconcile_all(self, objects: list[JSONObject]) -> int:
        """Write all bootstrap objects, concurrently, so that they are in few transactions. Returns how many must be tried again.

        An object that is refused, or exists and can't be read, is left as it is: trying again would not help, and until then
        nobody but administrators could do anything.
        """
        done = await asyncio.gather(*map(self._reconcile_one, objects), return_exceptions=True)
        failed = 0
        for obj, error in zip(objects, done, strict=True):
            if isinstance(error, BaseException) and not isinstance(error, StatusError):
                raise error
            if isinstance(error, Unreadable) or (error is not None and error.code in _REFUSED):
                log.warning("%s %s is not completed: %s", obj["kind"], obj["metadata"]["name"], error.message)
            elif error is not None:
                failed += 1
        return failed

    async def _reconcile_one(self, expected: JSONObject) -> None:
        from aggserver.authorization.aggregation import reconciled

        metadata, store = expected["metadata"], self._store(expected["kind"])
        context, name = Context(CONTROLLER, metadata.get("namespace", "")), metadata["name"]
        found = await store.find(context, name)
        if found is None:
            await _create(store, context, expected)
            return
        existing = found.decoded()
        if _is_protected(existing):
            return
        # Somebody may have added thousands of rules to a role, and each is compared with each expected rule.
        is_long = _weight(existing) > _MANY
        becomes = await asyncio.to_thread(reconciled, existing, expected) if is_long else reconciled(existing, expected)
        if becomes is None:
            return
        if becomes.get("roleRef") != existing.get("roleRef"):
            # A binding's roleRef can't be changed, so the binding is replaced.
            await store.delete(context, name, DeleteOptions(uid=existing["metadata"].get("uid")))
            await _create(store, context, becomes)
            return

        async def changed(current: JSONObject) -> JSONObject:
            return reconciled(current, expected) or current

        await store.update(WriteRequest(context, _BOOTSTRAP), name, changed)


async def _create(store: Store, context: Context, obj: JSONObject) -> None:
    try:
        await store.create(WriteRequest(context, _BOOTSTRAP), obj)
    except StatusError as error:
        if error.reason != "AlreadyExists":  # another server on the same store was quicker
            raise


def _is_aggregated(obj: JSONMapping, member: str) -> bool:
    return member == "rules" and "aggregationRule" in obj


def _weight(obj: JSONMapping) -> int:
    """About how much work a role or binding is: the number of its rules, selectors and subjects."""
    parts = obj.get("rules"), (obj.get("aggregationRule") or {}).get("clusterRoleSelectors"), obj.get("subjects")
    return 1 + sum(len(part or ()) for part in parts)


def _is_protected(obj: JSONMapping) -> bool:
    from aggserver.authorization.bootstrap import AUTOUPDATE

    return (obj["metadata"].get("annotations") or {}).get(AUTOUPDATE) == "false"

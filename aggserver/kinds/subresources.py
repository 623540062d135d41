"""The subresources that only single kinds have, i.e. all but `/status` and `/scale`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggserver.kinds.behaviours import stamp_conditions
from aggserver.kinds.pods import Bindings, EphemeralContainersStrategy, Evictions, ResizeStrategy
from aggserver.kinds.strategy import KindStatusStrategy, KindStrategy
from aggserver.merge import fieldset
from aggserver.merge.fieldset import FieldSet
from aggserver.meta.json_types import JSONObject
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore

__all__ = ["OWN"]

# (group, resource) -> the store of another resource.
Stores = Callable[[str, str], Store]


class ApprovalStrategy(KindStatusStrategy):
    """The strategy of `/approval` of a CertificateSigningRequest: changes its conditions."""

    subresource = "approval"

    def _resets(self) -> FieldSet:
        return {fieldset.field("spec"): {}, fieldset.field("status"): {fieldset.field("certificate"): {}}}

    def _changed(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        stamp_conditions(obj, old, now)
        conditions = (obj.get("status") or {}).get("conditions")
        obj["status"] = {name: value for name, value in (old.get("status") or {}).items() if name != "conditions"}
        if conditions:
            obj["status"]["conditions"] = conditions


def _part(strategy: type[KindStrategy]) -> Callable[[Store, Stores], object]:
    def made(store: Store, stores: Stores) -> object:
        of = store.strategy
        assert isinstance(of, KindStrategy)
        return StatusStore(store.with_strategy(strategy(of.kind)))

    return made


OWN: Mapping[tuple[str, str], Callable[[Store, Stores], object]] = {
    ("certificatesigningrequests", "approval"): _part(ApprovalStrategy),
    ("pods", "binding"): lambda store, stores: Bindings(store),
    ("pods", "ephemeralcontainers"): _part(EphemeralContainersStrategy),
    ("pods", "eviction"): lambda store, stores: Evictions(store, lambda: stores("policy", "poddisruptionbudgets")),
    ("pods", "resize"): _part(ResizeStrategy),
}
"""(resource, subresource) -> a function that makes the implementation."""

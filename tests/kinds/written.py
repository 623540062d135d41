"""What our modules make of a new object, in the order of a request: for the tests of defaults and of columns."""

from __future__ import annotations

from typing import Any

from aggserver.kinds.creation import CreateRequest, prepare_new
from aggserver.kinds.defaults import set_defaults
from aggserver.kinds.plugins import additions
from aggserver.registry.own_kinds import conformer
from tests.cases.kind_objects import NOW

__all__ = ["written"]

# Kinds that may be created with a status.
_KEEP_STATUS = ("core/v1.Node",)
_REQUEST = CreateRequest("UID", NOW, {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]})


def written(type_name: str, obj: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a new object, which is changed."""
    conform = conformer(type_name)
    conform(obj)
    set_defaults(obj, type_name)
    _admit(type_name, obj)
    if "status" in obj and type_name not in _KEEP_STATUS:
        obj["status"] = {}
    prepare_new(obj, type_name, _REQUEST)
    conform(obj)
    set_defaults(obj, type_name)
    return obj


def _admit(type_name: str, obj: dict[str, Any]) -> None:
    """What admission plugins add where there are no classes, and no ServiceAccounts."""
    if type_name == "core/v1.Pod":
        assert not additions.set_priority(obj, None)
        additions.tolerate_some_time(obj)
    elif (addition := _ADDITIONS.get(type_name)) is not None:
        addition(obj)


_ADDITIONS = {
    "core/v1.Node": additions.taint_node,
    "core/v1.PersistentVolume": additions.protect_volume,
    "core/v1.PersistentVolumeClaim": additions.protect_claim,
    "storage/v1.VolumeAttributesClass": additions.protect_attributes_class,
}

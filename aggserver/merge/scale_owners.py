"""Scale owners: managedFields of a Scale, made from those of the object behind it, and back.

The owners of the object's replicas own `spec.replicas` of its Scale. A write of the Scale changes the owners of the object in the
same way: a manager that loses the replicas in the Scale loses them in the object, and one that gains them gets an entry in the
object's version.
Pure. Source: k8s.io/apimachinery pkg/util/managedfields/scalehandler.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggserver.merge import fieldset
from aggserver.merge.fieldset import Path
from aggserver.merge.managed_fields import ManagedFieldsError, decode, in_order
from aggserver.merge.managers import Manager, Owned
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject

__all__ = ["ScaleOwners"]

_SCALE = "autoscaling/v1"
_IN_SCALE = (fieldset.field("spec"), fieldset.field("replicas"))


class ScaleOwners:
    """Converts managedFields between an object and its Scale. api_version: of the object, as this endpoint serves it.

    paths: `specReplicasPath` (`.spec.replicas`) of each version of the definition, by apiVersion; None for one without a Scale.
    """

    def __init__(self, api_version: str, paths: Mapping[str, str | None]) -> None:
        self._api_version = api_version
        self._paths: dict[str, Path | None] = {
            version: None if path is None else tuple(map(fieldset.field, path.removeprefix(".").split(".")))
            for version, path in paths.items()
        }

    def to_scale(self, entries: Any) -> list[JSONObject]:
        """The entries of an object's Scale, from those of the object. Raises StatusError (500) if they can't be decoded."""
        found = []
        for entry, _, owned in _decoded(entries, trusted=True):
            path = self._paths.get(owned.api_version)
            if path is not None and fieldset.contains(owned.fields, path):
                found.append({**entry, "apiVersion": _SCALE, "fieldsV1": fieldset.of_path(_IN_SCALE)})
        return in_order(found)

    def to_parent(self, entries: Any, scale_entries: Any) -> list[JSONObject]:
        """The entries of an object after a write of its Scale, from those before and those of the written Scale."""
        scale = _decoded(scale_entries, trusted=False)
        left = {manager: entry for entry, manager, owned in scale if fieldset.contains(owned.fields, _IN_SCALE)}
        found = []
        for entry, manager, owned in _decoded(entries, trusted=True):
            if owned.api_version not in self._paths:
                continue  # a version that the definition no longer has
            path = self._paths[owned.api_version]
            if path is None or not fieldset.contains(owned.fields, path) or left.pop(manager, None) is not None:
                found.append(entry)
            elif kept := fieldset.difference(owned.fields, fieldset.of_path(path)):
                found.append({**entry, "fieldsV1": fieldset.ordered(kept)})
        path = self._paths[self._api_version]
        assert path is not None  # there is a Scale
        for entry in left.values():
            # Without a time, as upstream: it looks for the time of a manager that the object did not have.
            taken = {name: value for name, value in entry.items() if name != "time"}
            found.append({**taken, "apiVersion": self._api_version, "fieldsV1": fieldset.of_path(path)})
        return in_order(found)


def _decoded(entries: Any, *, trusted: bool) -> Sequence[tuple[JSONObject, Manager, Owned]]:
    """The decoded entries. If a manager has two, as `to_parent` may leave them, the later counts, as upstream. Raises StatusError
    (500).

    trusted: the entries were stored.
    """
    found: dict[Manager, tuple[JSONObject, Manager, Owned]] = {}
    for entry in entries or ():
        try:
            ((manager, owned),) = decode([entry], trusted=trusted).items()
        except ManagedFieldsError as error:
            raise StatusError(500, "", str(error)) from None
        found[manager] = entry, manager, owned
    return list(found.values())

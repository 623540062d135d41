"""Changes to metadata that every write makes, for all kinds: namespace, system fields, ownerReferences, times in managedFields.

Pure, except that the functions change the object they are given.
Source: k8s.io/apiserver pkg/registry/rest/meta.go, pkg/endpoints/handlers/{rest,create}.go,
pkg/endpoints/handlers/fieldmanager/{admission,equality}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from aggserver.merge.managed_fields import without_entries
from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.warnings import Warnings

__all__ = ["check_name", "dedup_owner_references", "drop_system_fields", "keep_times", "place_in_namespace"]

# Set by the server; a client's values are dropped when it creates an object.
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def drop_system_fields(metadata: JSONObject) -> None:
    for name in _SYSTEM_FIELDS:
        metadata.pop(name, None)


def place_in_namespace(metadata: JSONObject, namespace: str, *, namespaced: bool) -> None:
    """Set the request's namespace if the object has none. Raises 400 if it has another one."""
    if not namespaced:
        metadata.pop("namespace", None)
    elif not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif metadata["namespace"] != namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check_name(obj: JSONObject, name: str) -> None:
    """Raise 400 if the object's name is not the one in the URL."""
    given = obj["metadata"].get("name")
    if not given:
        raise errors.bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def dedup_owner_references(metadata: JSONObject, warnings: Warnings, *, admitted: bool = False) -> None:
    """Drop repeated ownerReferences and add upstream's warning. admitted: whether mutating admission has run."""
    references = metadata.get("ownerReferences")
    if not isinstance(references, list) or len(references) < 2:
        return
    if len({str((reference or {}).get("uid")) for reference in references}) == len(references):
        return  # the usual case, which is quick even for tens of thousands
    kept: dict[Hashable, Any] = {}
    repeated: list[str] = []
    for reference in references:
        # A null is decoded as an empty reference.
        members = reference or {}
        content = _content(members)
        if content in kept:
            repeated.append(members.get("uid") or "")
        else:
            kept[content] = reference
    if repeated:
        metadata["ownerReferences"] = list(kept.values())
        warnings.append(
            f".metadata.ownerReferences contains duplicate entries{' after mutating admission happens' if admitted else ''}; "
            "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "
            f"please fix your requests; duplicate UID(s) observed: {', '.join(repeated)}"
        )


def _content(members: JSONObject) -> Hashable:
    """Equal for equal members. Encoded as JSON only if a value can't be hashed, since that takes longer."""
    content = tuple(sorted(members.items()))
    try:
        hash(content)
    except TypeError:  # an unknown member with a list or an object
        return codec.encode_json(dict(content))
    return content


def keep_times(obj: JSONObject, old: JSONObject) -> None:
    """Restore the old managedFields if only their times have changed, so that a write that changes nothing stores nothing."""
    entries, before = obj["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not entries or not before or len(entries) != len(before) or entries == before:
        return
    if all(map(_same_but_time, entries, before)) and codec.same(without_entries(obj), without_entries(old)):
        obj["metadata"]["managedFields"] = before


def _same_but_time(entry: JSONObject, before: JSONObject) -> bool:
    return {**entry, "time": None} == {**before, "time": None}

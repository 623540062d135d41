"""The JSON patches of mutating webhooks, with the error texts of upstream's library, which clients see.

Pure. Source: gopkg.in/evanphx/json-patch.v4 v4.13.0 (patch.go); k8s.io/apimachinery pkg/apis/meta/v1/unstructured, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aggserver.merge.patch import MAX_OPERATIONS, InvalidPatch, PatchOperation, apply_json_patch
from aggserver.meta import codec, versions
from aggserver.meta.golang import json_kind, to_json
from aggserver.meta.json_types import JSONObject
from aggserver.scheme.decoding import type_meta_error, without_kind

__all__ = ["InvalidPatch", "apply", "parse"]


def parse(patch: bytes) -> list[PatchOperation]:
    """The operations of a patch. Raises InvalidPatch, also above the limit for clients' patches; upstream has none here."""
    try:
        given = codec.decode_json(patch)
    except codec.DecodeError as error:
        raise InvalidPatch(str(error)) from None
    if given is None:
        return []
    if not isinstance(given, list):
        raise InvalidPatch(f"json: cannot unmarshal {json_kind(given)} into Go value of type jsonpatch.Patch")
    if len(given) > MAX_OPERATIONS:
        raise InvalidPatch(f"the patch has {len(given)} operations, and at most {MAX_OPERATIONS} are applied")
    return [_operation(entry) for entry in given]


def _operation(entry: Any) -> PatchOperation:
    """One operation. Missing members are an error only when it is applied. Raises InvalidPatch."""
    if not isinstance(entry, dict | None):
        raise InvalidPatch(f"json: cannot unmarshal {json_kind(entry)} into Go value of type jsonpatch.Operation")
    members = entry or {}
    op, path, from_path = (value if isinstance(value := members.get(key), str) else None for key in ("op", "path", "from"))
    return PatchOperation(op or "unknown", path, from_path, members.get("value"))


def apply(obj: JSONObject, operations: Sequence[PatchOperation]) -> JSONObject:
    """The patched object, which shares with `obj` what the patch does not touch.

    Raises JsonPatchError, and ValueError with upstream's text for a result that is no object, or has no kind.
    """
    made = apply_json_patch(obj, operations)
    if problem := type_meta_error(made):
        raise ValueError(problem)
    versions.parse_group_version(made.get("apiVersion") or "")
    if not made.get("kind"):
        raise ValueError(without_kind(to_json(made)))
    # An object without metadata has no name, which the registry refuses.
    return {"metadata": {}, **made}

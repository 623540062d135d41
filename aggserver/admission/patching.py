"""The JSON patches of mutating webhooks, with the texts of upstream's library, which clients are shown.

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
    """Raises InvalidPatch. Upstream has no limit for the operations of a webhook; ours is that for clients."""
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
    """What an operation lacks shows when it is applied."""
    if not isinstance(entry, dict | None):
        raise InvalidPatch(f"json: cannot unmarshal {json_kind(entry)} into Go value of type jsonpatch.Operation")
    members = entry or {}
    op, path, from_path = (value if isinstance(value := members.get(key), str) else None for key in ("op", "path", "from"))
    return PatchOperation(op or "unknown", path, from_path, members.get("value"))


def apply(obj: JSONObject, operations: Sequence[PatchOperation]) -> JSONObject:
    """The patched object, which shares what the patch leaves alone with `obj`.

    Raises ValueError: JsonPatchError, and upstream's text for a result that is no object, or has no kind.
    """
    made = apply_json_patch(obj, operations)
    if problem := type_meta_error(made):
        raise ValueError(problem)
    versions.parse_group_version(made.get("apiVersion") or "")
    if not made.get("kind"):
        raise ValueError(without_kind(to_json(made)))
    # An object without metadata has no name, which the registry refuses.
    return {"metadata": {}, **made}

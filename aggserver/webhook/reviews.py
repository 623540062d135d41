"""Reviews: reads the body of a webhook's answer as Go's client does, with its errors.

The content type does not matter. A body that does not start as a JSON object is read as YAML, so that HTML is a string.
Pure. Source: k8s.io/client-go rest/request.go (Result.Into); k8s.io/apimachinery pkg/runtime/{scheme,error}.go and
pkg/runtime/serializer, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.meta import codec
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.versions import parse_group_version
from aggserver.scheme.decoding import NO_TYPE_META, decode_error, type_meta_error
from aggserver.scheme.types import Type

__all__ = ["decode_review"]

# Parsing YAML takes a millisecond for 8 KB, and no webhook sends it. Larger bodies are an error, as invalid JSON.
_MAX_YAML_BYTES = 64 * 1024

# Upstream's errors name the place in its code where the scheme is made.
_SCHEME = '"pkg/runtime/scheme.go:111"'


def decode_review(body: bytes, api_version: str, kind: str, types: Mapping[str, Type]) -> JSONObject:
    """The review in an answer. It may lack apiVersion and kind, which then count as those of the request.

    api_version, kind: of the review that is expected. types: of this kind, by the versions that Go's client knows. Members of
    the result have these types; unknown members may have any. Raises ValueError.
    """
    value = _value(body)
    review: JSONObject = {} if value is None else value
    mismatch = type_meta_error(review)
    if mismatch:
        raise ValueError(mismatch)
    version, found = review.get("apiVersion") or "", review.get("kind") or kind
    group = parse_group_version(version)[0]
    if not version or version == f"{group}/":
        version = api_version
    wanted = types[api_version].name
    if (version, found) == ("v1", "Status"):
        raise ValueError(f"converting (v1.Status) to ({wanted}): unknown conversion")
    if found != kind or version not in types:
        raise ValueError(f"no kind {quote(found)} is registered for version {quote(version)} in scheme {_SCHEME}")
    problem = decode_error(review, types[version])
    if problem:
        raise ValueError(problem)
    if version != api_version:
        raise ValueError(f"converting ({types[version].name}) to ({wanted}): unknown conversion")
    return review


def _value(body: bytes) -> Any:
    try:
        if body.lstrip()[:1] == b"{" or len(body) > _MAX_YAML_BYTES:
            return codec.decode_json(body)
    except codec.DecodeError as error:
        raise ValueError(NO_TYPE_META + str(error)) from None
    return codec.decode_yaml(body)

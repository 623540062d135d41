"""Codec: decodes and encodes JSON and YAML as kube-apiserver does.

It decides which bodies are accepted and what they mean: numbers, repeated keys, nesting, and YAML in place of JSON. A valid JSON
body takes a fast path of a few passes in C; everything else, including error messages, takes a slower one. Pure.

Source: k8s.io/apimachinery pkg/runtime/serializer/json/json.go and pkg/util/json/json.go, v0.36.3; sigs.k8s.io/json.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

from aggserver.meta import json_text, yaml_output, yaml_text
from aggserver.meta.golang import INT64_MAX, INT64_MIN, from_float
from aggserver.meta.times import format_time, human_duration, parse_time

__all__ = [
    "DecodeError",
    "decode_checking_keys",
    "decode_documents",
    "decode_json",
    "decode_stored",
    "decode_yaml",
    "decode_yaml_checking_keys",
    "dump_yaml",
    "duplicate_fields",
    "encode_json",
    "format_time",
    "human_duration",
    "parse_time",
    "same",
    "yaml_pieces",
]

# For malformed bodies up to this size in bytes, Go's exact error is computed, which takes at most some 50 ms; for larger ones,
# the error is that of the fast decoder.
_EXPLAINED_BYTES = 256 * 1024

# The most opening brackets in the JSON of a request. Three megabytes of `[]` are a million lists, for which the decoder takes a
# tenth of a second in which nothing else runs. Brackets within strings count too; JSON in a ConfigMap has fewer than this.
_MAX_BRACKETS = 500_000

# With all digits replaced by 0, an exponent by a point, and spaces removed, a float is a row of zeros that ends with a point and
# follows a character that can precede a number. If a string contains the same, that only costs a walk over the value; sentences
# and image tags do not contain it.
_DIGITS_ARE_0 = bytes.maketrans(b"123456789Ee", b"000000000..")
_END_OF_ZEROS = b"0."
_SPACES = b" \t\r\n"
_BEFORE_NUMBERS = (b'":', b"[", b",", b'":-', b"[-", b",-")
# Escapes of a quote, a colon and a space, which can hide text that looks like the end of a key.
_HIDDEN = re.compile(rb"\\u00(?:2[02]|3[aA])")
_END_OF_KEY = b'":'
# The most candidates for floats to check in the text: so many, and one in so many bytes. With more, the value is walked over
# instead, which takes as long.
_MAX_CANDIDATES = 64
_CANDIDATE_BYTES = 128


class DecodeError(ValueError):
    """The body can't be decoded. `str()` is the error of Go's decoder, to which the handlers add a prefix.

    For an object the prefix is `couldn't get version/kind; json parse error: `, for a patch `error decoding patch: `.
    """


def decode_json(body: bytes) -> Any:
    """The value of a JSON text. Raises DecodeError.

    Numbers become what they are after one write and read by kube-apiserver: an int if it fits into 64 bits and has no fraction
    (1.0 is 1), else a float. The last of repeated keys counts. Invalid UTF-8 becomes U+FFFD. 250 levels of nesting are accepted,
    more than 254 never.
    """
    return _decode(body)[0]


def decode_checking_keys(body: bytes) -> tuple[Any, bool]:
    """As `decode_json`, and whether the text surely has no repeated keys, because the value has as many keys.

    If that is False, `duplicate_fields` must check. For bodies of requests: it also refuses too many objects and arrays.
    """
    if len(body) > _MAX_BRACKETS and body.count(b"{") + body.count(b"[") > _MAX_BRACKETS:
        raise DecodeError(f"more than {_MAX_BRACKETS} objects and arrays")
    value, compact = _decode(body)
    # Most clients write compact JSON, which differs from the encoded value if a repeated key was dropped.
    return value, compact is not None and (compact == body or compact == body.strip() or _as_many_keys(body, compact))


def _decode(body: bytes) -> tuple[Any, bytes | None]:
    """The value, and its compact JSON before numbers were normalised; None if it has none. Raises DecodeError."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _decode_unusual(body, error), None
    try:
        # Fails for integers beyond 53 bits, which are rare, and for values that are nested too deeply to be encoded.
        compact = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return _normalise(value, 0), None
    if isinstance(value, float) or _may_have_floats(body):
        value = _normalise(value, 0)
    return value, compact


def _as_many_keys(body: bytes, compact: bytes) -> bool:
    """Whether a text has no more keys than its value. Strings that look like the end of a key occur in both."""
    if _HIDDEN.search(body):
        return False
    bare, bare_compact = body.translate(None, _SPACES), compact.translate(None, _SPACES)
    return bare.count(_END_OF_KEY) == bare_compact.count(_END_OF_KEY)


def _may_have_floats(body: bytes) -> bool:
    """Whether the text may contain a number with a point or an exponent. Strings can cause false positives."""
    bare = body.translate(_DIGITS_ARE_0, _SPACES)
    most = _MAX_CANDIDATES + len(body) // _CANDIDATE_BYTES
    candidates = after = 0
    at = bare.find(_END_OF_ZEROS)
    while at >= 0:
        candidates += 1
        start = after + len(bare[after:at].rstrip(b"0"))
        if candidates > most or bare.endswith(_BEFORE_NUMBERS, 0, start):
            return True
        after = at + 1
        at = bare.find(_END_OF_ZEROS, after)
    return False


def decode_stored(raw: bytes) -> Any:
    """Decode bytes that `encode_json` made. They are not checked again."""
    return orjson.loads(raw)


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values. In Python 1, 1.0 and True are equal, so values that it finds equal are also compared as text."""
    return left == right and orjson.dumps(left, option=orjson.OPT_SORT_KEYS) == orjson.dumps(right, option=orjson.OPT_SORT_KEYS)


def encode_json(value: Any) -> bytes:
    """Compact JSON. Raises TypeError for values that no decoder here returns: other types, large integers, over 254 levels."""
    return orjson.dumps(value)


def decode_yaml(body: bytes) -> Any:
    """The value of the first document of a YAML text, None if it has none; numbers are as in `decode_json`. Raises DecodeError.

    It takes about a millisecond for 8 KB, so callers decode large texts in a thread.
    """
    return decode_yaml_checking_keys(body)[0]


def decode_yaml_checking_keys(body: bytes) -> tuple[Any, list[str]]:
    """As `decode_yaml`, and a strict decoder's error for repeated keys: one text that names all lines, or none."""
    try:
        value, repeated = yaml_text.decode(body)
    except yaml_text.YAMLTextError as error:
        raise DecodeError(str(error)) from None
    return value, ["\n  ".join(("yaml: unmarshal errors:", *repeated))] if repeated else []


def decode_documents(body: bytes) -> list[Any]:
    """All documents of a YAML (or JSON) file, without empty ones. Raises DecodeError."""
    try:
        documents = yaml_text.decode_all(body)
    except yaml_text.YAMLTextError as error:
        raise DecodeError(str(error)) from None
    return [document for document in documents if document is not None]


def dump_yaml(value: Any) -> bytes:
    """One YAML document, in upstream's form."""
    return yaml_output.encode(value)


def yaml_pieces(value: Any) -> Iterator[bytes]:
    """As `dump_yaml`, in pieces of about a millisecond's work each. An iterator in `value` is written as a list of its items."""
    return yaml_output.pieces(value)


def duplicate_fields(body: bytes) -> list[str]:
    """A strict decoder's errors for repeated keys in a well-formed JSON body: `duplicate field "spec.foo"` for each.

    It takes some 30 ms for a MB, so call it only if `decode_checking_keys` could not exclude repeated keys.
    """
    return json_text.duplicate_fields(body)


def _normalise(value: Any, depth: int) -> Any:
    """Convert numbers, as `decode_json` says. Changes containers in place."""
    if isinstance(value, float):
        return from_float(value)
    if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        return float(value)
    if depth > json_text.MAX_DEPTH:
        raise DecodeError(json_text.TOO_DEEP)
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(member, str):
                value[key] = _normalise(member, depth + 1)
    elif isinstance(value, list):
        value[:] = [_normalise(member, depth + 1) for member in value]
    return value


def _decode_unusual(body: bytes, error: orjson.JSONDecodeError) -> Any:
    """Decode what the fast decoder refuses: lone surrogates and invalid UTF-8 are valid in Go. Else raise Go's error."""
    try:
        value = json.loads(
            body.decode("utf-8", "replace"), parse_int=_parse_int, parse_float=_parse_float, parse_constant=_refuse_constant
        )
    except (DecodeError, RecursionError) as refusal:
        raise DecodeError(json_text.TOO_DEEP if isinstance(refusal, RecursionError) else str(refusal)) from None
    except ValueError:
        why = json_text.syntax_error(body) if len(body) <= _EXPLAINED_BYTES else str(error)
        raise DecodeError(why or str(error)) from None
    return _normalise(_replace_surrogates(value, 0), 0)


def _parse_int(text: str) -> int | float:
    # The length is checked first, since int() refuses thousands of digits.
    return int(text) if len(text) < 25 else _parse_float(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise DecodeError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


def _refuse_constant(text: str) -> NoReturn:
    # Python's decoder accepts NaN and Infinity.
    char = text.lstrip("-")[0]
    where = "in numeric literal" if text[0] == "-" else "looking for beginning of value"
    raise DecodeError(f"invalid character '{char}' {where}")


def _replace_surrogates(value: Any, depth: int) -> Any:
    if depth > json_text.MAX_DEPTH:
        raise DecodeError(json_text.TOO_DEEP)
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_replace_surrogates(key, depth): _replace_surrogates(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list):
        return [_replace_surrogates(member, depth + 1) for member in value]
    return value

"""Validation of names, label keys and label values.

Each function takes the value and returns upstream's errors, none if the value is valid. Those for names also take `prefix`: true
for a generateName, which may end with a dash, since a suffix follows. Pure.

Source: k8s.io/apimachinery pkg/util/validation/validation.go, pkg/api/validate/content, pkg/api/validation/generic.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

__all__ = [
    "NameRule",
    "dns1035_label",
    "dns1123_label",
    "dns1123_subdomain",
    "ip_address_name",
    "is_address_with_zeros",
    "label_value",
    "path_segment_name",
    "qualified_name",
]

NameRule = Callable[[str, bool], list[str]]

# In bytes, as in DNS (RFC 1035, 1123). Half of upstream's error texts, and so ours, call them characters.
_MAX_LABEL = 63
# The number of cached results: label keys and finalizers repeat on every object of a kind. Clients that send ever new ones only
# evict others.
_CACHE_SIZE = 1024
_MAX_SUBDOMAIN = 253
# Characters of the longest valid qualified name. A longer text may be as long as a body, and its result is not cached.
_MOST_CACHED = _MAX_SUBDOMAIN + 1 + _MAX_LABEL

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_name = re.compile(_NAME).fullmatch
_is_value = re.compile(_VALUE).fullmatch


def _explain(what: str, pattern: str, *examples: str) -> str:
    # The stray commas are upstream's.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_TEXT = _explain(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_TEXT = _explain(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1035_TEXT = _explain(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_NAME_TEXT = _explain(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _NAME,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_TEXT = _explain(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def dns1123_subdomain(value: str, prefix: bool = False) -> list[str]:
    """The name of most objects: labels joined by dots, at most 253 bytes."""
    value = _without_dash(value) if prefix else value
    return _subdomain(value, "characters")


def _subdomain(value: str, unit: str) -> list[str]:
    problems = _too_long(value, _MAX_SUBDOMAIN, unit)
    if not _is_subdomain(value):
        problems.append(_SUBDOMAIN_TEXT)
    return problems


def dns1123_label(value: str, prefix: bool = False) -> list[str]:
    """The name of a namespace: at most 63 bytes of lower-case letters, digits and dashes."""
    value = _without_dash(value) if prefix else value
    problems = _too_long(value, _MAX_LABEL, "characters")
    if not _is_label(value):
        problems.append("must not contain dots" if _is_subdomain(value) else _LABEL_TEXT)
    return problems


def dns1035_label(value: str, prefix: bool = False) -> list[str]:
    """The name of a service, and the names in a definition: as `dns1123_label`, but with a letter first."""
    value = _without_dash(value) if prefix else value
    problems = _too_long(value, _MAX_LABEL, "characters")
    if not _is_label_1035(value):
        problems.append(_LABEL_1035_TEXT)
    return problems


def path_segment_name(value: str, prefix: bool = False) -> list[str]:
    """The minimum for every name, which must be a segment of a URL's path. Empty names pass."""
    if not prefix and value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{text}'" for text in ("/", "%") if text in value]


def qualified_name(value: str) -> list[str]:
    """The key of a label, an annotation (in lower case) and the name of a finalizer: `[prefix/]name`."""
    return list(_cached_qualified_name(value) if len(value) <= _MOST_CACHED else _qualified_name(value))


def _qualified_name(value: str) -> tuple[str, ...]:
    parts = value.split("/")
    if len(parts) > 2:
        return (f"a valid label key {_NAME_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    problems = []
    if len(parts) == 2:
        before = _subdomain(parts[0], "bytes") if parts[0] else ["must be non-empty"]
        problems = [f"prefix part {text}" for text in before]
    name = parts[-1]
    of_name = _too_long(name, _MAX_LABEL, "bytes") if name else ["must be non-empty"]
    if not _is_name(name):
        of_name.append(_NAME_TEXT)
    return tuple(problems + [f"name part {text}" for text in of_name])


_cached_qualified_name = lru_cache(_CACHE_SIZE)(_qualified_name)


def label_value(value: str) -> list[str]:
    """The value of a label: at most 63 bytes; it may be empty."""
    problems = _too_long(value, _MAX_LABEL, "bytes")
    if not _is_value(value):
        problems.append(_VALUE_TEXT)
    return problems


def _without_dash(value: str) -> str:
    # Upstream replaces the last two characters with one; validity has never depended on the lost one.
    return value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value


def _too_long(value: str, maximum: int, unit: str) -> list[str]:
    # A character has at most four bytes, so most names need not be encoded to be measured.
    if len(value) * 4 <= maximum or len(value.encode()) <= maximum:
        return []
    return [f"must be no more than {maximum} {unit}"]


_ADDRESS_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def ip_address_name(name: str, prefix: bool) -> list[str]:
    """For names that are IP addresses in their only form."""
    from ipaddress import IPv6Address, ip_address  # not at the start, which seldom needs it

    try:
        found = ip_address(name)
    except ValueError:
        return ["must not have leading 0s" if is_address_with_zeros(name) else _ADDRESS_TEXT]
    if isinstance(found, IPv6Address):
        if found.scope_id is not None:
            return [_ADDRESS_TEXT]
        if found.ipv4_mapped is not None:
            return ["must not be an IPv4-mapped IPv6 address"]
    return [] if str(found) == name else [f'must be in canonical form ("{found}")']


def is_address_with_zeros(text: str) -> bool:
    """Whether it would be an IPv4 address without zeros before its numbers."""
    from ipaddress import ip_address

    try:
        ip_address(".".join(part.lstrip("0") or "0" for part in text.split(".")))
    except ValueError:
        return False
    return True

"""Named formats: `format.dns1123Label().validate(self.name)` returns the list of errors, or none.

Source: k8s.io/apiserver pkg/cel/library/format.go, v0.36.3; k8s.io/kube-openapi pkg/validation/strfmt for the last four.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from aggserver.cel.library.url import check_request_uri
from aggserver.cel.values import NONE, Opaque, Optional, no_such_overload
from aggserver.meta import names
from aggserver.meta.formats import is_base64, is_date, is_date_time

__all__ = ["IMPLEMENTATIONS", "NamedFormat"]


@dataclass(frozen=True, slots=True)
class NamedFormat(Opaque):
    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    problems: Callable[[str], list[str]]
    pattern_size: int
    """Characters of an equivalent regular expression, by which upstream computes the cost."""

    def equals(self, other: object) -> bool:
        if not isinstance(other, NamedFormat):
            raise no_such_overload()
        return self.name == other.name


_UUID = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def _uri(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except ValueError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    return [] if is_base64(text) else ["invalid base64"]


def _date(text: str) -> list[str]:
    return [] if is_date(text) else ["invalid date"]


def _date_time(text: str) -> list[str]:
    return [] if is_date_time(text) else ["invalid datetime"]


_FORMATS: Mapping[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", names.dns1123_label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", names.dns1123_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", names.dns1035_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", names.qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", functools.partial(names.dns1123_label, prefix=True), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", functools.partial(names.dns1123_subdomain, prefix=True), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", functools.partial(names.dns1035_label, prefix=True), 30),
    "labelValue": NamedFormat("LabelValue", names.label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _uuid, 70),
    "byte": NamedFormat("byte", _byte, 84),
    "date": NamedFormat("date", _date, 71),
    "datetime": NamedFormat("datetime", _date_time, 71),
}


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _validate(named: NamedFormat, text: str) -> Optional:
    problems = named.problems(text)
    return Optional(problems) if problems else NONE


def _always(value: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: value


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    **{f"format.{name}": _always(named) for name, named in _FORMATS.items()},
    "format-named": _named,
    "format-validate": _validate,
}

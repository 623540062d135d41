"""What users' functions get: requests.

A request is one frozen object with documented attributes; nothing is passed by the name of a parameter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from aggserver.authentication.user import UserInfo
from aggserver.meta import selectors
from aggserver.meta.origin import RequestOrigin
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.meta.warnings import Warnings
from aggserver.resources.errors import Unavailable
from aggserver.resources.host import HOSTING, NO_HOST, HostCluster

__all__ = ["Fields", "Labels", "ListRequest", "Request", "WatchRequest", "asked"]

# What requests take from the HTTP request behind them.
_OF_ORIGIN = ("verb", "subresource", "field_manager", "query", "audit_id", "deadline")

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Labels:
    """A label selector. What a function does with it is its own affair: objects that don't match are left out afterwards."""

    selector: LabelSelector

    def exact(self, key: str) -> str | None:
        """The only value of a label that is selected; None if there is more than one, or none is named."""
        for requirement in self.selector.requirements():
            if requirement.key == key and requirement.operator == "In" and len(requirement.values) == 1:
                return next(iter(requirement.values))
        return None

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.selector.matches(labels)

    def __str__(self) -> str:
        """As in `kubectl get -l`; '' selects everything."""
        return str(self.selector)


@dataclass(frozen=True, slots=True)
class Fields:
    """A field selector. What a function does with it is its own affair: objects that don't match are left out afterwards."""

    selector: FieldSelector

    def exact(self, path: str) -> str | None:
        """The only value of a field that is selected; None if none is named. path: `metadata.name`, or a selectable field."""
        return selectors.exact_value(self.selector, path.removeprefix(".")) or None

    def __str__(self) -> str:
        """As in `kubectl get --field-selector`; '' selects everything."""
        return str(self.selector)


@dataclass(frozen=True, slots=True)
class Request(Generic[S_co]):
    """Who asks for what. user: with name, groups, uid and extra. namespace: '' for all, or for objects that are in none.

    state: what the lifespan of the App yielded. dry_run: whether nothing may be changed; only hooks, and functions that were
    declared with `dry_run=True`, see it set. verb: what RBAC has allowed: get, list, watch, create, update, patch, delete or
    deletecollection. name: of the object; '' for a list. subresource: as in the URL, '' for the object itself. field_manager:
    under which name the client owns the fields that it writes. query: the parameters of the URL. audit_id: names the request in
    the logs. deadline: when the client gets an error instead of an answer, by the event loop's clock.

    What the server does by itself (polls, and writes by the handle of a stored resource) has the user `system:apiserver`, and no
    field_manager, query, audit_id and deadline.
    """

    user: UserInfo
    state: S_co
    namespace: str = ""
    dry_run: bool = False
    verb: str = ""
    name: str = ""
    subresource: str = ""
    field_manager: str = ""
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    audit_id: str = ""
    deadline: float = float("inf")
    warnings: Warnings = field(default_factory=Warnings)

    @property
    def host(self) -> HostCluster:
        """The hosting cluster, with the rights of this user. Raises Unavailable in `aggserver dev`, which has none."""
        hosting = HOSTING.get()
        if hosting is None:
            raise Unavailable(NO_HOST)
        return HostCluster(hosting, self)

    def warn(self, text: str) -> None:
        """Show a warning to the client; kubectl prints it."""
        self.warnings.append(text)

    @property
    def seconds_left(self) -> float:
        """Until the client gets an error instead of an answer. On the event loop only."""
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


def asked(
    user: UserInfo,
    namespace: str,
    origin: RequestOrigin | None,
    warnings: Warnings,
    *,
    state: Any = None,
    dry_run: bool = False,
    verb: str = "",
    name: str = "",
    subresource: str = "",
) -> Request[Any]:
    """A request as functions get it. verb, subresource: if `origin` is None, which knows them else."""
    if origin is None:
        more: dict[str, Any] = {"verb": verb, "subresource": subresource}
    else:
        more = {each: getattr(origin, each) for each in _OF_ORIGIN}
    return Request(user, state, namespace, dry_run, name=name, warnings=warnings, **more)


def _everything() -> Labels:
    return Labels(LabelSelector.parse(""))


def _all_fields() -> Fields:
    return Fields(FieldSelector.parse(""))


@dataclass(frozen=True, slots=True)
class ListRequest(Request[S_co]):
    """labels, fields: the selectors. limit: the most objects that are wanted, 0 for no limit. cursor: of the page before, as the
    function returned it; None for the first page.
    """

    labels: Labels = field(default_factory=_everything)
    fields: Fields = field(default_factory=_all_fields)
    limit: int = 0
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class WatchRequest(Request[S_co]):
    """labels, fields: the selectors. revision: what came after it is to be told."""

    labels: Labels = field(default_factory=_everything)
    fields: Fields = field(default_factory=_all_fields)
    revision: str = ""

"""Claims: the names of resources that are served without a definition of theirs, which no definition may take.

A resource that users have declared in Python comes first: a definition with one of its names is not served, since it would answer
for objects of another schema. The condition NamesAccepted says so, in the words for two definitions with the same name. Pure.
Source: none; upstream's definitions only meet other definitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggserver.apiextensions import conditions
from aggserver.apiextensions.definition import Definition
from aggserver.meta.json_types import JSONObject

__all__ = ["NameClaims"]


class NameClaims:
    """Names by group. by: who serves the resource, as file and line, for the log."""

    def __init__(self) -> None:
        self._claimed: dict[str, list[tuple[str, str, JSONObject]]] = {}

    def add(self, definition: Definition, by: str) -> None:
        holder: JSONObject = {"spec": {"group": definition.group}, "status": {"acceptedNames": _names(definition)}}
        self._claimed.setdefault(definition.group, []).append((definition.name, by, holder))

    def by(self, name: str) -> str:
        """Who serves the resource with this name, `sites.example.com`; '' if nobody does."""
        group = name.partition(".")[2]
        return next((by for claimed, by, _ in self._claimed.get(group, ()) if claimed == name), "")

    def of(self, group: str) -> Sequence[JSONObject]:
        """The claims as definitions whose names are accepted, for `conditions.conditions`."""
        return [holder for _, _, holder in self._claimed.get(group, ())]

    def conflict(self, crd: Mapping[str, Any]) -> str:
        """Why a definition can't be served beside the claims; '' if it can."""
        claimed = self._claimed.get(crd["spec"]["group"], ())
        fresh = {name: value for name, value in crd.items() if name != "status"}
        for name, by, holder in claimed:
            if (found := conditions.accept_names(fresh, [holder])[1]) is not None:
                return f"{found[1]}, by {name} ({by})"
        return ""

    def conflict_of(self, definition: Definition) -> str:
        """As `conflict`, of a definition that was parsed."""
        return self.conflict({"spec": {"group": definition.group, "names": _names(definition)}})


def _names(definition: Definition) -> JSONObject:
    """As in the spec of the definition, with the defaults."""
    names = definition.names
    return {
        "plural": names.plural,
        "singular": names.singular,
        "kind": names.kind,
        "listKind": names.list_kind,
        "shortNames": [*names.short_names],
    }

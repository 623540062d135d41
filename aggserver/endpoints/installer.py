"""Installer: all resources that are served, by their paths.

What is installed is a `Served`, whatever is behind it; dispatch, discovery and OpenAPI read them. Each change replaces the
mapping as a whole, and `generation` counts the changes, so that caches of derived values can be renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aggserver.endpoints.served import Served
from aggserver.meta import versions
from aggserver.publish.discovery import APIGroup, APIGroupVersion, APIResource
from aggserver.publish.models import Published

__all__ = ["Installer"]


@dataclass(frozen=True, slots=True)
class _Mapping:
    by_path: dict[tuple[str, str, str], Served] = field(default_factory=dict)
    groups: tuple[APIGroup, ...] = ()
    by_group_version: Mapping[tuple[str, str], Sequence[Served]] = field(default_factory=dict)
    built_in: frozenset[str] = frozenset()


class Installer:
    """All resources that are served. Each belongs to an owner: a definition (by its name), or one of the sets of own kinds."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[Served, ...]] = {}
        self._mapping = _Mapping()
        self._listeners: list[Callable[[], None]] = []
        self._adopted: dict[tuple[str, str], str] = {}
        self.generation = 0

    def install(self, changes: Iterable[tuple[str, Sequence[Served]]]) -> None:
        """Replace the resources of each owner, all in one change. An empty sequence withdraws them."""
        for owner, served in changes:
            if served:
                self._owners[owner] = tuple(served)
            else:
                self._owners.pop(owner, None)
        self._mapping = self._built()
        self.generation += 1
        for listener in self._listeners:
            listener()

    def mark_adopted(self, group_versions: Iterable[tuple[str, str]], installation: str) -> None:
        """Set the id of the installation that has adopted these (group, version) from the host; '' after they were released."""
        for each in group_versions:
            if installation:
                self._adopted[each] = installation
            else:
                self._adopted.pop(each, None)

    def adopted_by(self, group: str, version: str) -> str:
        """The id of the installation that has adopted a group-version; '' if it is not adopted."""
        return self._adopted.get((group, version), "")

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def find(self, group: str, version: str, resource: str) -> Served | None:
        return self._mapping.by_path.get((group, version, resource))

    def serves(self, group: str, version: str) -> bool:
        """Whether there is any resource of this group-version."""
        return (group, version) in self._mapping.by_group_version

    def everything(self) -> Iterable[Served]:
        return self._mapping.by_path.values()

    def groups(self) -> Sequence[APIGroup]:
        """For discovery: groups in the order of their owners' installation, versions in the order of preference."""
        return self._mapping.groups

    def built_in(self, group: str) -> bool:
        """Whether this group has a built-in resource. Then upstream has a router for all paths below it, which sends a Status."""
        return group in self._mapping.built_in

    def published(self, group: str, version: str) -> Sequence[Published]:
        return [served.published for served in self._mapping.by_group_version.get((group, version), ())]

    def _built(self) -> _Mapping:
        by_path: dict[tuple[str, str, str], Served] = {}
        resources: dict[str, dict[str, list[APIResource]]] = {}
        for owner in self._owners.values():
            for served in owner:
                info = served.info
                by_path[info.group, info.version, info.resource] = served
                resources.setdefault(info.group, {}).setdefault(info.version, []).append(served.resource)
        groups = []
        for group, by_version in resources.items():
            ordered = sorted(by_version, key=versions.sort_key)
            groups.append(APIGroup(group, tuple(APIGroupVersion(group, name, tuple(by_version[name])) for name in ordered)))
        built_in = frozenset(served.info.group for served in by_path.values() if served.built_in)
        by_group_version: dict[tuple[str, str], list[Served]] = {}
        for served in by_path.values():
            by_group_version.setdefault((served.info.group, served.info.version), []).append(served)
        return _Mapping(by_path, tuple(groups), by_group_version, built_in)

"""The classes of a stored resource `sites` in two versions, as Apps of tests serve it."""

from __future__ import annotations

from dataclasses import dataclass, field

from aggserver import Metadata

__all__ = ["OldSite", "Site", "SiteSpec", "SiteStatus", "down", "up"]


@dataclass
class SiteSpec:
    image: str
    replicas: int = 1


@dataclass
class SiteStatus:
    ready: int = 0
    observed_generation: int = 0


@dataclass
class Site:
    """A site of a customer."""

    metadata: Metadata
    spec: SiteSpec
    status: SiteStatus = field(default_factory=SiteStatus)


@dataclass
class OldSite:
    metadata: Metadata
    image: str
    size: int = 1


def up(old: OldSite) -> Site:
    return Site(old.metadata, SiteSpec(old.image, old.size))


def down(new: Site) -> OldSite:
    return OldSite(new.metadata, new.spec.image, new.spec.replicas)

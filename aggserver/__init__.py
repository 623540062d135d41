"""aggserver: an extension API server for the Kubernetes aggregation layer.

The public names are those of this module, of `aggserver.cel` and of `aggserver.testing`; everything else may change between
releases.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggserver.meta.errors import StatusError
    from aggserver.resources.app import App
    from aggserver.resources.errors import (
        AlreadyExists,
        Conflict,
        Expired,
        FieldError,
        Forbidden,
        Invalid,
        NotFound,
        Unavailable,
    )
    from aggserver.resources.events import Bookmark, Changed, Event, Gone, Relist
    from aggserver.resources.handle import Column, Scale
    from aggserver.resources.metrics import MetricRequest, NodeUsage, PodUsage, Sample, Usage
    from aggserver.resources.pages import Page
    from aggserver.resources.requests import ListRequest, Request, WatchRequest
    from aggserver.resources.stored import Stored
    from aggserver.resources.virtual import Virtual
    from aggserver.typed.markers import (
        Doc,
        Extra,
        Format,
        Ge,
        Gt,
        Int32,
        IntOrString,
        JSONName,
        Le,
        Lt,
        MapKey,
        MaxLen,
        MinLen,
        MultipleOf,
        Pattern,
        Rule,
    )
    from aggserver.typed.metadata import Metadata
    from aggserver.typed.quantity import Quantity

# Public name -> its module. Each is imported at its first use: each run of pytest loads our plugin, and this package with it.
_MODULES = {
    "AlreadyExists": "aggserver.resources.errors",
    "App": "aggserver.resources.app",
    "Bookmark": "aggserver.resources.events",
    "Changed": "aggserver.resources.events",
    "Column": "aggserver.resources.handle",
    "Conflict": "aggserver.resources.errors",
    "Doc": "aggserver.typed.markers",
    "Event": "aggserver.resources.events",
    "Expired": "aggserver.resources.errors",
    "Extra": "aggserver.typed.markers",
    "FieldError": "aggserver.resources.errors",
    "Forbidden": "aggserver.resources.errors",
    "Format": "aggserver.typed.markers",
    "Ge": "aggserver.typed.markers",
    "Gone": "aggserver.resources.events",
    "Gt": "aggserver.typed.markers",
    "Int32": "aggserver.typed.markers",
    "IntOrString": "aggserver.typed.markers",
    "Invalid": "aggserver.resources.errors",
    "JSONName": "aggserver.typed.markers",
    "Le": "aggserver.typed.markers",
    "ListRequest": "aggserver.resources.requests",
    "Lt": "aggserver.typed.markers",
    "MapKey": "aggserver.typed.markers",
    "MaxLen": "aggserver.typed.markers",
    "Metadata": "aggserver.typed.metadata",
    "MetricRequest": "aggserver.resources.metrics",
    "MinLen": "aggserver.typed.markers",
    "MultipleOf": "aggserver.typed.markers",
    "NodeUsage": "aggserver.resources.metrics",
    "NotFound": "aggserver.resources.errors",
    "Page": "aggserver.resources.pages",
    "Pattern": "aggserver.typed.markers",
    "PodUsage": "aggserver.resources.metrics",
    "Quantity": "aggserver.typed.quantity",
    "Relist": "aggserver.resources.events",
    "Request": "aggserver.resources.requests",
    "Rule": "aggserver.typed.markers",
    "Sample": "aggserver.resources.metrics",
    "Scale": "aggserver.resources.handle",
    "StatusError": "aggserver.meta.errors",
    "Stored": "aggserver.resources.stored",
    "Unavailable": "aggserver.resources.errors",
    "Usage": "aggserver.resources.metrics",
    "Virtual": "aggserver.resources.virtual",
    "WatchRequest": "aggserver.resources.requests",
}

__all__ = [
    "AlreadyExists",
    "App",
    "Bookmark",
    "Changed",
    "Column",
    "Conflict",
    "Doc",
    "Event",
    "Expired",
    "Extra",
    "FieldError",
    "Forbidden",
    "Format",
    "Ge",
    "Gone",
    "Gt",
    "Int32",
    "IntOrString",
    "Invalid",
    "JSONName",
    "Le",
    "ListRequest",
    "Lt",
    "MapKey",
    "MaxLen",
    "Metadata",
    "MetricRequest",
    "MinLen",
    "MultipleOf",
    "NodeUsage",
    "NotFound",
    "Page",
    "Pattern",
    "PodUsage",
    "Quantity",
    "Relist",
    "Request",
    "Rule",
    "Sample",
    "Scale",
    "StatusError",
    "Stored",
    "Unavailable",
    "Usage",
    "Virtual",
    "WatchRequest",
    "__version__",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """What there is, loaded or not: for `help(aggserver)` and for completion."""
    return [*__all__, "__doc__", "__name__", "__path__"]

"""aggserver: an extension API server for the Kubernetes aggregation layer.

The public names are those of this module, of `aggserver.cel` and of `aggserver.testing`; everything else may change between
releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggserver.meta.errors import StatusError

__all__ = ["StatusError", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import StatusError at its first use: each run of pytest loads our plugin, and this package with it."""
    if name != "StatusError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aggserver.meta.errors import StatusError

    return StatusError

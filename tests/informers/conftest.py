from __future__ import annotations

from tests.registry.conftest import store, world

__all__ = ["store", "world"]

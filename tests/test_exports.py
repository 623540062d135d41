"""The public names. To add one is a feature and to remove one is a break: either way this list is changed in the same commit."""

from __future__ import annotations

import aggserver

PUBLIC = ["StatusError", "__version__"]


def test_public_names():
    assert sorted(aggserver.__all__) == PUBLIC
    assert all(hasattr(aggserver, name) for name in PUBLIC)

"""The warnings of a request: those of an attempt that is made again are dropped, all others are sent."""

from __future__ import annotations

from contextlib import suppress

import pytest

from aggserver.meta.warnings import Warnings


@pytest.mark.parametrize(
    ("end", "kept"),
    [(None, True), (KeyError(), False), (ValueError(), True)],
    ids=["it succeeds", "it is lost", "it fails otherwise"],
)
def test_an_attempt(end: Exception | None, kept: bool) -> None:
    warnings = Warnings()
    warnings.append("before")
    with suppress(KeyError, ValueError), warnings.attempt(KeyError):
        warnings.append("one")
        with suppress(KeyError), warnings.attempt(KeyError):
            warnings.append("of another write within")
            raise KeyError
        warnings.extend(["two", "three"])
        if end is not None:
            raise end
    warnings.append("after")
    assert list(warnings) == ["before", *(["one", "two", "three"] if kept else []), "after"]

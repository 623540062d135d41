"""The corpus itself: all of it is there, and one that isn't is a failure that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus


def test_all_of_it_is_there() -> None:
    assert len(corpus.definitions()) == 125
    assert len(corpus.samples()) == 367
    assert len(corpus.accepted_samples()) == 302


def test_a_missing_corpus_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRD_CORPUS", str(tmp_path))
    with pytest.raises(corpus.Missing, match=r"the corpus is in the git repository .* use a clone, or let CRD_CORPUS name"):
        corpus.definitions()

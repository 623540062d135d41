"""Tests of `aggserver/storage/interface.py`: functions that get an empty, open store. Every backend must pass all.

`CASES` lists them; a backend's test file runs them all. `suite.py` says what a case may rely on, `in_process.py` has the
additional guarantees of stores in this process, `test_upstream.py` maps upstream's tests to ours. For a backend that others write
to as well, each case gets a store with a prefix of its own. The behaviour is that of k8s.io/apiserver pkg/storage/testing
(store_tests.go, watcher_tests.go) v0.36.3 and etcd's API; the cases are our own.
"""

from __future__ import annotations

from tests.storage import (
    contract_advance,
    contract_history,
    contract_lists,
    contract_selection,
    contract_watches,
    contract_writes,
)
from tests.storage.suite import Case, Recorder, follow

__all__ = ["CASES", "Case", "Recorder", "follow"]

CASES: tuple[Case, ...] = (
    *contract_writes.SUITE,
    *contract_lists.SUITE,
    *contract_watches.SUITE,
    *contract_history.SUITE,
    *contract_advance.SUITE,
    *contract_selection.SUITE,
)

"""The contract of `aggserver/storage/interface.py` as functions over an open store that holds nothing: every backend passes all.

`CASES` lists them; a backend's test file is one line over it. `suite.py` says what a case may take for granted, `in_process.py`
has what only the stores in this process promise beyond, `test_upstream.py` says which of upstream's tests is where. A backend
that others write to as well hands out a store below a prefix of its own for each case. Behaviour after k8s.io/apiserver
pkg/storage/testing (store_tests.go, watcher_tests.go) v0.36.3 and etcd's API, in our own cases.
"""

from __future__ import annotations

from tests.storage import contract_history, contract_lists, contract_watches, contract_writes
from tests.storage.suite import Case, Recorder, follow

__all__ = ["CASES", "Case", "Recorder", "follow"]

CASES: tuple[Case, ...] = (
    *contract_writes.SUITE,
    *contract_lists.SUITE,
    *contract_watches.SUITE,
    *contract_history.SUITE,
)

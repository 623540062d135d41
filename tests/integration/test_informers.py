"""Real informers see the truth: client-go's and the Python client's, through ends and restarts of the server.

What their handlers are told and what their stores have at the end is held against the history that `tests/history` makes of
acknowledged writes and of its own witnesses.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.history.clients import witnesses
from tests.history.informers import InformerRecording, check_informer
from tests.history.scenarios import SCENARIOS, run
from tests.history.wire import KINDS, Shared
from tests.integration.informing import Recordings, go_informers, python_informers

INFORMERS: dict[str, Callable[[Path, Shared, Recordings], contextlib.AbstractAsyncContextManager[None]]] = {
    "client-go, WatchList": lambda *to: go_informers(*to, watch_list=True),
    "client-go, list and watch": lambda *to: go_informers(*to, watch_list=False),
    "Python": python_informers,
}


# With the seed of each.
RUNS = {
    ("killed", "sqlite"): 588_214,
    ("killed in compaction", "sqlite"): 120_409,
    ("killed in compaction", "etcd"): 871_363,
    ("etcd killed", "etcd"): 49_730,
}
LONG = {("killed", "sqlite"), ("killed in compaction", "sqlite"), ("killed in compaction", "etcd")}


@pytest.mark.parametrize(
    ("name", "store"), [pytest.param(*each, marks=pytest.mark.long if each in LONG else ()) for each in RUNS]
)
def test_informers_see_the_truth(name: str, store: str, tmp_path: Path) -> None:
    seed = RUNS[name, store]
    recordings = {kind: {resource: InformerRecording(kind, resource) for resource in KINDS} for kind in INFORMERS}

    @contextlib.asynccontextmanager
    async def beside(kubeconfig: Path, shared: Shared) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as informers:
            for kind, run_informers in INFORMERS.items():
                await informers.enter_async_context(run_informers(kubeconfig, shared, recordings[kind]))
            yield

    verdict = asyncio.run(run(SCENARIOS[name], store, seed, tmp_path, witnesses, beside))
    assert not verdict.faults, f"{verdict}\nseed {seed}"
    for recording in (recording for of_kind in recordings.values() for recording in of_kind.values()):
        faults = check_informer(verdict.truth, recording)
        assert not faults, "\n".join([f"{len(faults)} faults, seed {seed}; the first:", *faults[:5]])
        assert recording.entries

"""Every client sees the truth: the event history checker on a running server, whatever happens to that.

`tests/history` has the checker; its own tests show what it finds. `python -m tests.history` runs the same for as long as one
likes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.history.recording import is_deleted
from tests.history.scenarios import RUNS, SCENARIOS, run

# In these nothing is killed, or less than in those of `make integration`, or what is killed there is compacted, too.
LONG = {
    ("calm", "sqlite"),
    ("compaction", "sqlite"),
    ("restarted", "sqlite"),
    ("killed in compaction", "sqlite"),
    ("killed in compaction", "etcd"),
    ("etcd killed", "etcd"),
    ("restarted", "kine"),
    ("kine killed", "kine"),
    ("upgraded alone", "sqlite"),
}


# Of each run. `python -m tests.history` draws others.
SEEDS = {
    ("calm", "sqlite"): 401_133,
    ("compaction", "sqlite"): 77_602,
    ("killed", "sqlite"): 918_245,
    ("restarted", "sqlite"): 260_977,
    ("killed in compaction", "sqlite"): 643_018,
    ("killed in compaction", "etcd"): 15_886,
    ("replicas killed", "etcd"): 702_351,
    ("etcd killed", "etcd"): 334_469,
    ("restarted", "kine"): 511_204,
    ("kine killed", "kine"): 96_377,
    ("upgraded", "etcd"): 480_211,
    ("upgraded alone", "sqlite"): 57_930,
}


@pytest.mark.parametrize(
    ("name", "store"), [pytest.param(*each, marks=pytest.mark.long if each in LONG else ()) for each in RUNS]
)
def test_every_client_sees_the_truth(name: str, store: str, tmp_path: Path) -> None:
    seed = SEEDS[name, store]
    scenario = SCENARIOS[name]
    verdict = asyncio.run(run(scenario, store, seed, tmp_path))
    again = f"python -m tests.history --scenario {name!r} --store {store} --seed {seed}"
    assert not verdict.faults, f"{verdict}\nonce more: {again}"
    # Not every write that is acknowledged changes something: the deletion of none, or of what is being deleted, does not.
    assert len(verdict.truth.facts) >= scenario.goal // 2
    assert any(fact.object is not None and is_deleted(fact.object) for fact in verdict.truth.facts)
    # Otherwise nobody came too late, or somebody was sent away who need not be.
    assert (verdict.expired > 0) == scenario.short, f"{verdict.expired} clients were told to list anew; once more: {again}"

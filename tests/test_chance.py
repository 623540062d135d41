"""Nothing in a run of the tests is by chance, nor by speed: who draws has a seed, and who waits has a condition."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests import fuzz

TESTS = Path(__file__).parent
FILES = {str(path.relative_to(TESTS)): path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__)}

# Where chance lives. Each tells its seed, and takes it as an option.
BY_CHANCE = {"fuzz.py", "growth/__main__.py", "history/__main__.py", "owners/__main__.py", "pods/__main__.py"}
# The module's own generator, or one without a seed; and what nobody can draw again.
DRAWN = re.compile(
    r"(?<![\w.])random\.(?!Random\()\w+\(|\bRandom\(\)|\bSystemRandom\b|\burandom\(|\buuid[14]\(|(?<![\w.])secrets\.\w+\("
)

# Who sleeps for a time, and why that decides nothing.
SLEEPERS = {
    "waiting.py": "between two looks at a condition",
    "integration/server.py": "between two looks at a condition",
    "controlplane/plane.py": "between two looks at a condition",
    "controlplane/guard.py": "between two attempts",
    "integration/test_doctor.py": "between two looks at a condition",
    "integration/test_etcd_store.py": "in the place of the store's own sleep",
    "integration/moving.py": "between writes, and before an attempt that a server put off",
    "integration/shelving.py": "between writes, and before an attempt that a server put off",
    "history/writers.py": "between writes",
    "integration/killing.py": "until the moment of a kill, and before an attempt",
    "integration/cases_webhooks.py": "a webhook that hangs",
    "admission/test_bad_webhooks.py": "a webhook that hangs",
    "storage/test_etcd_faults.py": "a client that hangs",
    "integration/test_adoption_cleanup.py": "a webhook that holds a request until it may go",
    "integration/test_adoption_switch.py": "before an attempt that a server put off",
    "integration/in_the_cluster/outages.py": "between two looks",
    "integration/apps/sites.py": "between lines of a log that is followed",
    "integration/apps/tickets.py": "between two looks at a source",
    "postgres/database.py": "between two looks at a condition",
    "postgres/postgres_example.py": "between two looks at a condition",
    "resources/test_calls.py": "a function that is ended before",
    "sample_apiserver/program.py": "between two looks at a condition",
    "owners/playing.py": "until a second is over, and after a definition has changed",
}
SLEPT = re.compile(r"(?<![\w.])(?:time|asyncio)\.sleep\((?!0\))")


def having(pattern: re.Pattern[str]) -> set[str]:
    return {name for name, text in FILES.items() if pattern.search(text)}


def test_who_draws_has_a_seed() -> None:
    of_the_module = having(DRAWN) & having(re.compile(r"^import (random|os|secrets|uuid)$", re.MULTILINE))
    assert of_the_module == BY_CHANCE


def test_who_waits_has_a_condition() -> None:
    assert having(SLEPT) == SLEEPERS.keys()


def test_examples_are_the_same_in_each_run() -> None:
    assert settings().derandomize
    assert settings().database is None
    assert not len(providers._get_local_constants()), "what is loaded goes into the examples"


def test_all_laws_are_tried_by_chance() -> None:
    modules = {f"tests.{name[:-3].replace('/', '.')}" for name in having(re.compile(r"^@given\(", re.MULTILINE))}
    assert modules == set(fuzz.MODULES)

"""`python -m benchmarks.merging`: microseconds that managed fields take of one write.

One process, no server: the object of the other benchmarks (benchmarks/load/object.go) and its definition, as they are, and with
the environment as a list map, whose items are owned one by one. Each figure is the best mean of some rounds. Values are decoded
anew for each operation, as a server has them: what was stored and what was sent share nothing, a patched object shares with the
stored one what the patch leaves alone.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import yaml

from aggserver.merge.atom import of_resource
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.patch import merge_patch
from aggserver.schema import structural
from benchmarks.run import DEFINITION

SIZE = 3700
ROUNDS = 60
COUNT = 30
API_VERSION, KIND = "bench.aggserver.dev/v1", "CronTab"
NOW, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z"

JSONObject = dict[str, Any]
# Arguments of one call, made anew for each.
Case = Callable[[], tuple[Any, ...]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.merging", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", metavar="NAME", help="profile this operation instead")
    options = parser.parse_args(arguments)
    for title, schema in _schemas().items():
        for name, (operation, case) in _operations(schema).items():
            if options.profile is None:
                print(f"{title:12} {name:34} {_microseconds(operation, case):8.1f} us", flush=True)
            elif options.profile == name:
                _profile(operation, case)
    return 0


def _schemas() -> dict[str, JSONObject]:
    schema = yaml.safe_load(DEFINITION.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    as_map = copy.deepcopy(schema)
    as_map["properties"]["spec"]["properties"]["env"] |= {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    return {"as it is": schema, "a list map": as_map}


def _manager(schema: JSONObject) -> FieldManager:
    tree = structural.compile(schema)
    atom = of_resource(tree)
    return FieldManager(API_VERSION, KIND, lambda _: atom, lambda obj, _: obj, "", {API_VERSION: {"f:status": {}}})


def _body(replicas: int = 1) -> JSONObject:
    """What a client sends."""
    made: JSONObject = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "annotations": {
                "example.com/owner": "team-scheduling@example.com",
                "example.com/runbook": "https://runbooks.example.com/crontab",
            },
            "labels": {
                "app.kubernetes.io/name": "report",
                "app.kubernetes.io/part-of": "billing",
                "tier": "batch",
            },
            "name": "bench-000001",
        },
        "spec": {
            "replicas": replicas,
            "args": ["--config=/etc/report/config.yaml", "--output=/var/lib/report", "--verbose"],
            "env": [],
            "cronSpec": "*/5 * * * *",
            "image": "registry.example.com/billing/report:2026.4.1",
            "suspend": False,
            "timeZone": "Etc/UTC",
        },
    }
    environment = made["spec"]["env"]
    while len(orjson.dumps(made)) < SIZE:
        index = len(environment)
        environment.append(
            {"name": f"REPORT_SETTING_{index:03}", "value": f"value-{index * 7 % 1000:03}-of-the-report"},
        )
    return made


def _sent(replicas: int = 1) -> JSONObject:
    """The same when it is written: with the namespace, what the server sets, and defaults."""
    made = _body(replicas)
    made["metadata"] |= {
        "namespace": "bench",
        "uid": "6f1d4c2e-7f0a-4bb0-9d0e-3f8a4f4c7d11",
        "creationTimestamp": NOW,
        "generation": 1,
    }
    made["spec"]["concurrencyPolicy"] = "Allow"
    return made


def _operations(schema: JSONObject) -> dict[str, tuple[Callable[..., Any], Case]]:
    manager = _manager(schema)
    fresh = orjson.dumps(_sent())
    changed = orjson.dumps(_sent(2))
    sent, other = orjson.dumps(_body(2)), _body(2)
    for name in ("image", "timeZone"):
        del other["spec"][name]
    less = orjson.dumps(other)
    stored = orjson.loads(fresh)
    manager.update(None, stored, "load", NOW)
    stored["metadata"]["resourceVersion"] = "12"
    by_update = orjson.dumps(stored)
    applied = manager.apply(None, _body(), "load", force=True, now=NOW)
    by_apply = orjson.dumps({**_sent(), "metadata": {**_sent()["metadata"], **applied["metadata"]}})
    manager_of_two = orjson.loads(by_update)
    two = orjson.dumps(manager.apply(manager_of_two, _body(2), "load", force=True, now=LATER))

    def updated(live: bytes, new: bytes) -> tuple[Any, ...]:
        there, made = orjson.loads(live), orjson.loads(new)
        # A client sends what it read.
        made["metadata"]["managedFields"] = orjson.loads(live)["metadata"]["managedFields"]
        made["metadata"]["resourceVersion"] = "12"
        return there, made, "load", LATER

    def patched(live: bytes, patch: JSONObject) -> tuple[Any, ...]:
        there = orjson.loads(live)
        made = merge_patch(there, patch)
        return there, {**made, "metadata": dict(made["metadata"])}, "load", LATER

    def apply(live: JSONObject | None, config: JSONObject) -> None:
        manager.apply(live, config, "load", force=True, now=LATER)

    return {
        "create": (manager.update, lambda: (None, orjson.loads(fresh), "load", NOW)),
        "update of one field": (manager.update, lambda: updated(by_update, changed)),
        "update of nothing": (manager.update, lambda: updated(by_update, fresh)),
        "merge patch of one field": (manager.update, lambda: patched(by_update, {"spec": {"replicas": 3}})),
        "merge patch, two managers": (manager.update, lambda: patched(two, {"spec": {"replicas": 3}})),
        "apply as create": (apply, lambda: (None, orjson.loads(sent))),
        "apply of one field": (apply, lambda: (orjson.loads(by_apply), orjson.loads(sent))),
        "apply of nothing": (apply, lambda: (orjson.loads(by_apply), _body())),
        "apply, taken over from an update": (apply, lambda: (orjson.loads(by_update), orjson.loads(sent))),
        "apply, two managers": (apply, lambda: (orjson.loads(two), orjson.loads(sent))),
        "apply that leaves out two fields": (apply, lambda: (orjson.loads(by_apply), orjson.loads(less))),
    }


def _microseconds(operation: Callable[..., Any], case: Case) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        calls = [case() for _ in range(COUNT)]
        began = time.perf_counter()
        for arguments in calls:
            operation(*arguments)
        best = min(best, (time.perf_counter() - began) / COUNT)
    return best * 1e6


def _profile(operation: Callable[..., Any], case: Case) -> None:
    import cProfile
    import pstats

    calls = [case() for _ in range(COUNT * ROUNDS)]
    with cProfile.Profile() as profile:
        for arguments in calls:
            operation(*arguments)
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""An operator as people write them with kopf: for each Ladder it says in the status which mark it has seen.

Run with `kopf run --standalone --namespace shelves ladders.py`, in a pod by tests/integration/in_the_cluster/operators.py.
"""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.create("shelves.example.com", "v1", "ladders", id="seen")
@kopf.on.update("shelves.example.com", "v1", "ladders", field="spec", id="seen")
def seen(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    patch.status["mark"] = spec["mark"]

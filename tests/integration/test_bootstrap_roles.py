"""The bootstrap roles and bindings are those of kube-apiserver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aggserver.authorization import bootstrap
from tests.controlplane.cluster import Cluster
from tests.integration.bootstrap_roles import SELECTOR, as_text

KINDS = "clusterroles,roles,clusterrolebindings,rolebindings"


def test_the_bootstrap_roles_are_upstream(control_plane: Cluster) -> None:
    served = control_plane.get(KINDS, "--all-namespaces", "--selector", SELECTOR)["items"]
    assert as_text(served) == Path(bootstrap.__file__).with_name("bootstrap_roles.txt").read_text()
    # The controller that gives these their rules works in its own time.
    ours = [_comparable(obj) for obj in bootstrap.objects()]
    assert ours == sorted(map(_comparable, served), key=lambda obj: [_key(each) for each in ours].index(_key(obj)))


def _key(obj: dict[str, Any]) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _comparable(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: obj["metadata"].get(name) for name in ("name", "namespace", "labels", "annotations")}
    kept = {name: value for name, value in obj.items() if not (name == "rules" and obj.get("aggregationRule"))}
    return kept | {"metadata": metadata}

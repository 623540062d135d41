"""The manifests as people and programs apply them: again and again, from the client's side and from the server's, pruned."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.cluster import Cluster


def _states(cluster: Cluster, manifests: Path) -> dict[str, object]:
    """Of each object a number that changes with it; where controllers write a status, the one of what is wanted."""
    items = cluster.get("--kustomize", str(manifests))["items"]
    return {
        f"{item['kind']} {item['metadata']['name']}": item["metadata"].get("generation", item["metadata"]["resourceVersion"])
        for item in items
    }


def test_applied_again_nothing_changes(aggregated: Cluster, manifests: Path) -> None:
    before = _states(aggregated, manifests)
    assert "Deployment aggserver" in before
    applied = aggregated.kubectl("apply", "--kustomize", str(manifests))
    assert applied.stderr == ""
    # Of a PodDisruptionBudget's selector, which its Go type replaces as a whole, kubectl always sends a patch.
    said = {line.rsplit(" ", 1)[1] for line in applied.stdout.splitlines() if not line.startswith("poddisruptionbudget")}
    assert said == {"unchanged"}
    assert _states(aggregated, manifests) == before
    difference = aggregated.kubectl("diff", "--kustomize", str(manifests), check=False)
    assert (difference.returncode, difference.stdout) == (0, "")


def test_applied_by_the_server(aggregated: Cluster, manifests: Path) -> None:
    """As programs do that keep a cluster like a repository; then nothing differs from either side."""
    aggregated.kubectl("apply", "--server-side", "--kustomize", str(manifests))
    for more in ((), ("--server-side",)):
        difference = aggregated.kubectl("diff", *more, "--kustomize", str(manifests), check=False)
        assert (difference.returncode, difference.stdout) == (0, "")


def test_pruning_takes_nothing_away(aggregated: Cluster, manifests: Path) -> None:
    """Everything that the server makes itself is no part of the manifests, and must not look as if it was left over."""
    kinds = (
        "core/v1/Secret",
        "core/v1/ConfigMap",
        "apiregistration.k8s.io/v1/APIService",
        "rbac.authorization.k8s.io/v1/ClusterRole",
    )
    allowed = [f"--prune-allowlist={kind}" for kind in kinds]
    label = "app.kubernetes.io/name=aggserver"
    applied = aggregated.kubectl("apply", "--prune", "-l", label, *allowed, "--kustomize", str(manifests))
    assert "pruned" not in applied.stdout
    assert aggregated.kubectl("get", "crontabs").returncode == 0

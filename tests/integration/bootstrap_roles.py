"""The text of the bootstrap roles, from what a kube-apiserver serves: `kubectl get ... -o json | python -m
tests.integration.bootstrap_roles` prints what belongs into aggserver/authorization/bootstrap_roles.txt.

    kubectl get clusterroles,roles,clusterrolebindings,rolebindings -A -l kubernetes.io/bootstrapping=rbac-defaults -o json

aggserver/authorization/bootstrap.py describes the form.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = ["SELECTOR", "as_text"]

SELECTOR = "kubernetes.io/bootstrapping=rbac-defaults"

_KINDS = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
_LABEL = "rbac.authorization.k8s.io/aggregate-to-"


def as_text(objects: Iterable[dict[str, Any]]) -> str:
    ordered = sorted(objects, key=lambda obj: (_KINDS.index(obj["kind"]), _path(obj["metadata"])))
    return "".join(f"{line}\n" for obj in ordered for line in _lines(obj))


def _path(metadata: dict[str, Any]) -> str:
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]


def _lines(obj: dict[str, Any]) -> Iterator[str]:
    metadata = obj["metadata"]
    more = [f"to={label.removeprefix(_LABEL)}" for label in metadata["labels"] if label.startswith(_LABEL)]
    aggregates = obj.get("aggregationRule")
    for selector in (aggregates or {}).get("clusterRoleSelectors", ()):
        (label,) = selector["matchLabels"]
        more.append(f"aggregates={label.removeprefix(_LABEL)}")
    role = obj.get("roleRef", {}).get("name", metadata["name"])
    if role != metadata["name"]:
        more.append(f"role={role}")
    yield " ".join((obj["kind"], _path(metadata), *more))
    # What it aggregates is in the other roles.
    yield from () if aggregates else (f"  {' '.join(_rule(rule))}" for rule in obj.get("rules") or ())
    yield from (f"  {subject['kind']} {_path(subject)}" for subject in obj.get("subjects") or ())


def _rule(rule: dict[str, Any]) -> Iterator[str]:
    for member in ("verbs", "nonResourceURLs", "apiGroups", "resources", "resourceNames"):
        if member in rule:
            yield _joined(rule[member])


def _joined(texts: Sequence[str]) -> str:
    return ",".join(text or '""' for text in texts)


if __name__ == "__main__":
    sys.stdout.write(as_text(json.load(sys.stdin)["items"]))

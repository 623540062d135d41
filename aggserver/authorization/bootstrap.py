"""The bootstrap roles and bindings: what RBAC allows in a new cluster, before anybody has created a role.

`bootstrap_roles.txt` lists them, in the order of their kinds and names:

    ClusterRole edit to=admin aggregates=edit     a role, with what its labels say; its rules follow
      get,list "",apps pods,deployments NAME      verbs, API groups, resources and, for some, the names of objects
      get /api,/api/*                             verbs and paths
    RoleBinding kube-system/x role=y              a binding; without `role=`, of the role of the same name
      ServiceAccount kube-system/z                its subjects follow

tests/integration/bootstrap_roles.py writes that file from what kube-apiserver serves; a test compares the two. Aggregating roles
get their rules here, as the controller would set them later.
Pure. Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy, v1.36.3.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from aggserver.authorization.aggregation import Aggregation
from aggserver.authorization.rbac import GROUP, Policy
from aggserver.meta.json_types import JSONObject

__all__ = ["AUTOUPDATE", "objects", "policy"]

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"

_FILE = Path(__file__).with_name("bootstrap_roles.txt")
_BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_NO_GROUP = '""'


@cache
def policy() -> Policy:
    """The policy of the bootstrap objects. Shared: must not be changed."""
    return Policy(objects())


def objects() -> list[JSONObject]:
    """The bootstrap objects, as a client would send them; new ones with each call."""
    found: list[JSONObject] = []
    for line in _FILE.read_text().splitlines():
        if not line.startswith(" "):
            found.append(_object(*line.split()))
            continue
        obj = found[-1]
        if "roleRef" in obj:
            obj.setdefault("subjects", []).append(_subject(*line.split()))
        else:
            obj.setdefault("rules", []).append(_rule(*line.split()))
    roles = [obj for obj in found if obj["kind"] == "ClusterRole"]
    for name, rules in Aggregation(roles).changed.items():
        next(role for role in roles if role["metadata"]["name"] == name)["rules"] = rules
    return found


def _object(kind: str, path: str, *more: str) -> JSONObject:
    given = dict(part.split("=") for part in more)
    namespace, slash, name = path.rpartition("/")
    metadata: dict[str, Any] = {"name": name}
    if slash:
        metadata["namespace"] = namespace
    metadata["labels"] = dict(_BOOTSTRAPPING)
    if "to" in given:
        metadata["labels"][_aggregates_to(given["to"])] = "true"
    metadata["annotations"] = {AUTOUPDATE: "true"}
    obj: JSONObject = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
    if kind.endswith("Binding"):
        ref = {"apiGroup": GROUP, "kind": kind.removesuffix("Binding"), "name": given.get("role", name)}
        return {**obj, "roleRef": ref}
    if "aggregates" in given:
        obj["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_aggregates_to(given["aggregates"]): "true"}}]}
    return obj


def _aggregates_to(role: str) -> str:
    return f"{GROUP}/aggregate-to-{role}"


def _rule(verbs: str, *what: str) -> JSONObject:
    names = ("nonResourceURLs",) if len(what) == 1 else ("apiGroups", "resources", "resourceNames")
    members = {name: _texts(text) for name, text in zip(names, what, strict=False)}
    return {**members, "verbs": _texts(verbs)}


def _texts(text: str) -> list[str]:
    return ["" if part == _NO_GROUP else part for part in text.split(",")]


def _subject(kind: str, path: str) -> JSONObject:
    if kind != "ServiceAccount":
        return {"apiGroup": GROUP, "kind": kind, "name": path}
    namespace, _, name = path.partition("/")
    return {"kind": kind, "name": name, "namespace": namespace}

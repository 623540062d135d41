"""Rights: whether the server's account has the rights in the hosting cluster that an App declares, asked when the App starts.

A right that is missing is named in the log and in `/readyz`, with the line that needs it, and asked for again until it is there.
The cluster may have either kind of impersonation: constrained, or the verb `impersonate`, which comprises everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from aggserver.cluster import Cluster
from aggserver.meta.json_types import JSONObject
from aggserver.resources.needs import MODES, USERS_GROUP, Need, impersonated

__all__ = ["missing"]

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def missing(cluster: Cluster, needs: Iterable[Need]) -> list[str]:
    """What the server's account may not do of what is needed, a text for each need. Raises ClusterError and Unreachable."""
    needs = [*needs]
    found: list[str] = []
    as_user = [need for need in needs if need.as_user]
    if as_user and await _may(cluster, {"verb": "impersonate", "resource": "users"}):
        as_user = []
    elif as_user and not await _may(cluster, {"verb": "impersonate:user-info", "group": USERS_GROUP, "resource": "users"}):
        found.append(f"impersonate:user-info users.{USERS_GROUP} ({as_user[0].place})")
    for need in needs:
        if need.as_user and need not in as_user:
            continue
        verbs = [impersonated(MODES[0], verb) for verb in need.verbs] if need.as_user else need.verbs
        lacking = [verb for verb in verbs if not await _has(cluster, need, verb)]
        if lacking:
            where = f" in {need.namespace}" if need.namespace else ""
            names = f" {', '.join(need.names)}" if need.names else ""
            found.append(f"{', '.join(lacking)} {need}{names}{where} ({need.place})")
    return found


async def _has(cluster: Cluster, need: Need, verb: str) -> bool:
    attributes = {"verb": verb, "group": need.group, "resource": need.resource, "subresource": need.subresource}
    for name in need.names or ("",):
        if not await _may(cluster, {**attributes, "namespace": need.namespace, "name": name}):
            return False
    return True


async def _may(cluster: Cluster, attributes: JSONObject) -> bool:
    spec = {"resourceAttributes": {name: value for name, value in attributes.items() if value}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    answer = await cluster.request("POST", _REVIEWS, body=review)
    return bool(answer.get("status", {}).get("allowed"))

"""The cases follow those of k8s.io/kubernetes plugin/pkg/admission/gc/gc_admission_test.go, v1.36.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, UPDATE, Attributes, Chain
from aggserver.admission.owner_references import OwnerReferencesPermissionEnforcement
from aggserver.authentication.user import UserInfo
from aggserver.cel.library.authz import Check, Decision
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo

PODS = ResourceInfo("", "v1", "pods", "Pod", "PodList", namespaced=True)
KINDS = {
    ("v1", "ReplicationController"): [
        ResourceInfo("", "v1", "replicationcontrollers", "ReplicationController", "", namespaced=True)
    ],
    ("apps/v1", "DaemonSet"): [ResourceInfo("apps", "v1", "daemonsets", "DaemonSet", "", namespaced=True)],
    ("v1", "Node"): [ResourceInfo("", "v1", "nodes", "Node", "", namespaced=False)],
}


async def authorize(attributes: Attributes, check: Check) -> Decision:
    """The users of upstream's test."""
    user = attributes.user.name
    if user == "non-deleter":
        return Decision(check.verb != "delete" and check.subresource != "finalizers")
    if user == "non-pod-deleter":
        return Decision(not (check.verb == "delete" and check.resource == "pods"))
    if user == "non-rc-deleter":
        anything = check.resource == "*" and check.subresource == "finalizers"
        rc = check.verb == "update" and check.resource == "replicationcontrollers" and check.subresource == "finalizers"
        return Decision(not (anything or rc))
    if user == "non-node-deleter":
        anything = check.resource == "*" and check.subresource == "finalizers"
        node = check.verb == "update" and check.resource == "nodes" and check.namespace == ""
        return Decision(not (anything or node), "no", "it broke")
    return Decision(True)


async def find(api_version: str, kind: str) -> Sequence[ResourceInfo]:
    if (api_version, kind) not in KINDS:
        raise LookupError(f'no matches for kind "{kind}" in version "{api_version}"')
    return KINDS[api_version, kind]


def owner(name: str, kind: str = "ReplicationController", version: str = "v1", *, blocks: bool | None = None) -> JSONObject:
    found = {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}"}
    return found if blocks is None else {**found, "blockOwnerDeletion": blocks}


def pod(*owners: JSONObject) -> JSONObject:
    return {"metadata": {"name": "a", **({"ownerReferences": list(owners)} if owners else {})}}


FIRST, SECOND = owner("first"), owner("second")
BLOCKS, BLOCKS_NOT = owner("rc1", blocks=True), owner("rc1", blocks=False)
UNSET = owner("rc1")
NODE = owner("node", "Node", blocks=True)
CANT_DELETE = "cannot set an ownerRef on a resource you can't delete: , <nil>"
CANT_FINALIZE = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
NO_KIND = (
    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Ghost: "
    'no matches for kind "Ghost" in version "v1"'
)

Case = tuple[str, JSONObject | None, JSONObject, str]

# name: (user, the object before, the object, the refusal).
CASES: dict[str, Case] = {
    "super-user, create, no objectref change": ("super", None, pod(), ""),
    "super-user, create, objectref change": ("super", None, pod(FIRST), ""),
    "non-deleter, create, no objectref change": ("non-deleter", None, pod(), ""),
    "non-deleter, create, objectref change": ("non-deleter", None, pod(FIRST), ""),
    "super-user, update, no objectref change no old owner": ("super", pod(), pod(), ""),
    "super-user, update, no objectref change same old owner": ("super", pod(FIRST), pod(FIRST), ""),
    "super-user, update, no objectref change old owner": ("super", pod(FIRST), pod(SECOND), ""),
    "non-deleter, update, no objectref change nil": ("non-deleter", pod(), pod(), ""),
    "non-deleter, update, no objectref change existing": ("non-deleter", pod(FIRST), pod(FIRST), ""),
    "non-deleter, update, objectref change": ("non-deleter", pod(), pod(FIRST), CANT_DELETE),
    "non-deleter, update, objectref change two": ("non-deleter", pod(FIRST), pod(FIRST, SECOND), CANT_DELETE),
    "non-pod-deleter, update, objectref change": ("non-pod-deleter", pod(), pod(FIRST), CANT_DELETE),
    "super-user, create, all ownerReferences have blockOwnerDeletion=false": ("super", None, pod(BLOCKS_NOT), ""),
    "super-user, create, some ownerReferences have blockOwnerDeletion=true": ("super", None, pod(BLOCKS_NOT, BLOCKS), ""),
    "non-rc-deleter, create, no ownerReferences": ("non-rc-deleter", None, pod(), ""),
    "non-rc-deleter, create, all ownerReferences have blockOwnerDeletion=false or nil": (
        "non-rc-deleter",
        None,
        pod(BLOCKS_NOT, UNSET),
        "",
    ),
    "non-node-deleter, create, all ownerReferences have blockOwnerDeletion=false": (
        "non-node-deleter",
        None,
        pod(BLOCKS_NOT),
        "",
    ),
    "non-rc-deleter, create, some ownerReferences have blockOwnerDeletion=true": (
        "non-rc-deleter",
        None,
        pod(BLOCKS),
        CANT_FINALIZE,
    ),
    "non-rc-deleter, create, some ownerReferences have blockOwnerDeletion=true, but are pointing to daemonset": (
        "non-rc-deleter",
        None,
        pod(owner("ds", "DaemonSet", "apps/v1", blocks=True)),
        "",
    ),
    "non-node-deleter, create, some ownerReferences have blockOwnerDeletion=true, pointing to node": (
        "non-node-deleter",
        None,
        pod(NODE),
        "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no, it broke",
    ),
    "super-user, update, no ownerReferences change": ("super", pod(), pod(), ""),
    "non-rc-deleter, update, no ownerReferences change, ownerReferences have blockOwnerDeletion=true": (
        "non-rc-deleter",
        pod(BLOCKS),
        pod(BLOCKS),
        "",
    ),
    "non-rc-deleter, update, blockOwnerDeletion changes from true to false": ("non-rc-deleter", pod(BLOCKS), pod(BLOCKS_NOT), ""),
    "non-rc-deleter, update, blockOwnerDeletion changes from false to true": (
        "non-rc-deleter",
        pod(BLOCKS_NOT),
        pod(BLOCKS),
        CANT_FINALIZE,
    ),
    "non-rc-deleter, update, blockOwnerDeletion changes from nil to true": (
        "non-rc-deleter",
        pod(UNSET),
        pod(BLOCKS),
        CANT_FINALIZE,
    ),
    "non-rc-deleter, update, blockOwnerDeletion changes from true to nil": ("non-rc-deleter", pod(BLOCKS), pod(UNSET), ""),
    "non-rc-deleter, update, add ownerReferences with blockOwnerDeletion=true": (
        "non-rc-deleter",
        pod(),
        pod(BLOCKS),
        CANT_FINALIZE,
    ),
    "an owner of no kind": ("non-rc-deleter", None, pod(owner("x", "Ghost", blocks=True)), NO_KIND),
}


def attributes(user: str, operation: str) -> Attributes:
    return Attributes(operation, UserInfo(user), PODS, "", "Pod", "v1", "ns", "a", dry_run=False)


@pytest.mark.parametrize("case", CASES)
async def test_case(case: str) -> None:
    user, before, obj, refusal = CASES[case]
    bound = Chain(validating=[OwnerReferencesPermissionEnforcement(authorize, find)]).bind(
        attributes(user, CREATE if before is None else UPDATE)
    )
    if not refusal:
        await bound.validate(obj, before)
        return
    with pytest.raises(StatusError) as raised:
        await bound.validate(obj, before)
    assert (raised.value.code, raised.value.message) == (403, f'pods "a" is forbidden: {refusal}')


async def test_a_deletion() -> None:
    asked: list[Any] = []

    async def note(attributes: Attributes, check: Check) -> Decision:
        asked.append(check)
        return Decision(False)

    bound = Chain(validating=[OwnerReferencesPermissionEnforcement(note, find)]).bind(attributes("a", "DELETE"))
    await bound.validate(None, pod(BLOCKS))
    assert not asked

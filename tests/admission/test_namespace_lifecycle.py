from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes
from aggserver.admission.namespace_lifecycle import NamespaceLifecycle
from aggserver.authentication.user import UserInfo
from aggserver.meta import errors
from aggserver.meta.resource import ResourceInfo

CRONTABS = ResourceInfo("stable.example.com", "v1", "crontabs", "CronTab", "CronTabList", namespaced=True)
NAMESPACES = ResourceInfo("", "v1", "namespaces", "Namespace", "NamespaceList", namespaced=False)
BASE = Attributes(CREATE, UserInfo("alice"), CRONTABS, "", "CronTab", CRONTABS.api_version, "live", "a", dry_run=False)
NAMESPACE = replace(BASE, resource=NAMESPACES, kind="Namespace", object_version="v1", namespace="")


class KnownNamespaces:
    async def phase(self, name: str) -> str | None:
        if name == "unknown":
            raise errors.service_unavailable("not yet")
        return {"live": "Active", "going": "Terminating"}.get(name)


def asked(base: Attributes = BASE, **changes: Any) -> Attributes:
    return replace(base, **changes)


ALLOWED: dict[str, Attributes] = {
    "created where all is well": asked(),
    "cluster-scoped": asked(namespace=""),
    "deleted from one that is going": asked(operation=DELETE, namespace="going"),
    "deleted from one that is not there": asked(operation=DELETE, namespace="none"),
    "deleted while nothing is known": asked(operation=DELETE, namespace="unknown"),
    "updated in one that is going": asked(operation=UPDATE, namespace="going"),
    "a namespace created": asked(NAMESPACE, name="new"),
    "a namespace created, as its own": asked(NAMESPACE, name="new", namespace="new"),
    "a namespace updated": asked(NAMESPACE, operation=UPDATE, name="going", namespace="going"),
    "a namespace deleted": asked(NAMESPACE, operation=DELETE, name="live"),
    "a default of another kind deleted": asked(operation=DELETE, name="default"),
}


@pytest.mark.parametrize("case", ALLOWED)
async def test_allowed(case: str) -> None:
    await NamespaceLifecycle(KnownNamespaces()).mutate(ALLOWED[case], {"metadata": {"name": "a"}}, None)


def being_terminated(name: str) -> str:
    return (
        f'crontabs.stable.example.com "{name}" is forbidden: unable to create new content in namespace going '
        "because it is being terminated"
    )


REFUSED: dict[str, tuple[Attributes, dict[str, Any], int, str]] = {
    "created in one that is not there": (asked(namespace="none"), {}, 404, 'namespaces "none" not found'),
    "updated in one that is not there": (asked(operation=UPDATE, namespace="none"), {}, 404, 'namespaces "none" not found'),
    "created in one that is going": (asked(namespace="going"), {}, 403, being_terminated("a")),
    "a name to be generated": (asked(namespace="going", name=""), {"generateName": "b-"}, 403, being_terminated("b-")),
    "a name in the body": (asked(namespace="going", name=""), {"name": "c"}, 403, being_terminated("c")),
    "no name": (asked(namespace="going", name=""), {}, 403, being_terminated("Unknown")),
    "while nothing is known": (asked(namespace="unknown"), {}, 503, "not yet"),
    **{
        f"{name} deleted": (
            asked(NAMESPACE, operation=DELETE, name=name),
            {},
            403,
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
        )
        for name in ("default", "kube-system", "kube-public")
    },
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused(case: str) -> None:
    what, metadata, code, message = REFUSED[case]
    with pytest.raises(errors.StatusError) as refused:
        await NamespaceLifecycle(KnownNamespaces()).mutate(what, {"metadata": metadata}, None)
    assert (refused.value.code, refused.value.message) == (code, message)


async def test_the_cause_of_termination() -> None:
    with pytest.raises(errors.StatusError) as refused:
        await NamespaceLifecycle(KnownNamespaces()).mutate(asked(namespace="going"), None, None)
    assert refused.value.status()["details"]["causes"] == [
        {"reason": "NamespaceTerminating", "message": "namespace going is being terminated", "field": "metadata.namespace"}
    ]

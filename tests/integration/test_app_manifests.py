"""`aggserver manifests` on a real control plane: it takes all objects, and users with its own roles may what the App offers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from aggserver import Bookmark, Request, StatusError
from aggserver.authentication.user import UserInfo
from aggserver.cluster.client import connect
from aggserver.resources import rights
from aggserver.resources.host import HostCluster, Hosting
from aggserver.resources.needs import Need
from tests.command import run
from tests.controlplane.cluster import Cluster
from tests.integration.server import eventually

APP = """
from dataclasses import dataclass
from aggserver import App, ListRequest, Metadata, Request

@dataclass
class Ticket:
    metadata: Metadata
    title: str

app = App()
app.needs("configmaps", "list", "watch", as_user=True)
app.needs("secrets", "get", namespace="default", names=["helpdesk"])
nodes = app.informer("v1", "nodes")
tickets = app.virtual("helpdesk.example.com/v1", Ticket, poll=60)

@tickets.list
def list_tickets(request: ListRequest[None]) -> list[Ticket]:
    return []

@tickets.create
def create_ticket(request: Request[None], new: Ticket) -> Ticket:
    return new
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("project")
    (folder / "helpdesk.py").write_text(APP)
    done = run("manifests", "--app", "helpdesk:app", "--image", "helpdesk:1", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


# kubectl asks about resources that are served only, and no pod runs here: this one is in the App's place.
IN_PLACE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tickets.helpdesk.example.com}
spec:
  group: helpdesk.example.com
  scope: Namespaced
  names: {plural: tickets, kind: Ticket}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""


@pytest.fixture(scope="module")
def applied(control_plane: Cluster, printed: str) -> Iterator[None]:
    """All of it, and a user of each of Kubernetes' roles in the namespace default."""
    done = control_plane.kubectl("apply", "-f", "-", input=printed)
    assert done.stdout.count(" created") == printed.count("---\n")
    for level in ("view", "edit", "admin"):
        control_plane.kubectl("create", "rolebinding", f"helpdesk-{level}", f"--clusterrole={level}", f"--user=hd-{level}")
    control_plane.kubectl("create", "-f", "-", input=IN_PLACE)
    control_plane.kubectl("wait", "--for=condition=Established", "crd/tickets.helpdesk.example.com")
    yield
    control_plane.kubectl("delete", "--wait=false", "-f", "-", input=IN_PLACE)
    for level in ("view", "edit", "admin"):
        control_plane.kubectl("delete", "rolebinding", f"helpdesk-{level}")
    control_plane.kubectl("delete", "--wait=false", "-f", "-", input=printed)


def test_a_second_apply_changes_nothing(control_plane: Cluster, printed: str, applied: None) -> None:
    for how in ((), ("--server-side",)):
        done = control_plane.kubectl("apply", "--dry-run=server", *how, "-f", "-", input=printed)
        lines = done.stdout.splitlines()
        assert len(lines) == printed.count("---\n")
        if not how:
            assert [line for line in lines if not line.endswith(" unchanged (server dry run)")] == []


# verb -> who may, of view, edit and admin
MAY = {
    "list": ["view", "edit", "admin"],
    "watch": ["view", "edit", "admin"],
    "create": ["edit", "admin"],
    "delete": [],  # there is no function for it
    "patch": [],
}


@pytest.mark.parametrize(("verb", "levels"), MAY.items(), ids=MAY)
def test_who_may(control_plane: Cluster, applied: None, verb: str, levels: list[str]) -> None:
    def may(level: str) -> bool:
        return control_plane.kubectl(*asked, "--as", f"hd-{level}", check=False).returncode == 0

    asked = ("auth", "can-i", verb, "tickets.helpdesk.example.com", "--quiet")
    if levels:  # the controller adds the rules to Kubernetes' roles in its own time
        eventually(lambda: [level for level in ("view", "edit", "admin") if may(level)] == levels, f"{verb} for {levels}")
    else:
        assert [level for level in ("view", "edit", "admin") if may(level)] == []


def test_the_account_may_register_its_own_apis_only(control_plane: Cluster, applied: None) -> None:
    account = "--as=system:serviceaccount:helpdesk-system:helpdesk"
    service = {"helpdesk.example.com": "created", "stable.example.com": "may only serve helpdesk.example.com"}
    for group, answer in service.items():
        manifest = f"""
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: v2.{group}}}
spec:
  group: {group}
  version: v2
  groupPriorityMinimum: 1000
  versionPriority: 15
  service: {{name: helpdesk, namespace: helpdesk-system}}
"""

        def said(manifest: str = manifest) -> str:
            done = control_plane.kubectl("create", "--dry-run=server", account, "-f", "-", input=manifest, check=False)
            return done.stdout + done.stderr

        # The policy takes effect in its own time.
        eventually(lambda answer=answer, said=said: answer in said(), f"{group}: {answer}")  # type: ignore[misc]


# --- the rights in the cluster that the App declares

ACCOUNT = "system:serviceaccount:helpdesk-system:helpdesk"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:helpdesk-system")
ANN = UserInfo("hd-view", groups=("hd-staff", "system:authenticated"), extra={"example.com/scopes": ("a", "b")})
USERS = {
    "a user with groups and extra fields": ANN,
    "a service account": UserInfo("system:serviceaccount:default:default", uid="7", groups=("system:serviceaccounts",)),
}


@pytest.mark.parametrize("name", USERS)
def test_the_account_may_do_what_is_declared_as_its_users(control_plane: Cluster, applied: None, name: str) -> None:
    """Constrained impersonation: with the user's rights, these verbs on this resource only."""
    user = USERS[name]
    reader = ("create", "rolebinding", "helpdesk-reader", "--clusterrole=view", "--serviceaccount=default:default")
    control_plane.kubectl(*reader)

    async def ask() -> None:
        client = await connect(str(control_plane.user(ACCOUNT, GROUPS)), "test")
        try:
            host = HostCluster(Hosting(client, lambda group: False), Request(user, None))
            page = await host.list("v1", "configmaps", "default")
            async with contextlib.aclosing(host.watch("v1", "configmaps", "default", revision=page.revision)) as events:
                assert await anext(events) == Bookmark(page.revision)
            for forbidden in (
                host.get("v1", "configmaps", "kube-root-ca.crt", "default"),  # a verb that is not declared
                host.list("v1", "pods", "default"),  # a resource that is not
                host.list("v1", "configmaps", "kube-system"),  # what the user may not
            ):
                with pytest.raises(StatusError) as refused:
                    await forbidden
                assert refused.value.code == 403
        finally:
            await client.close()

    try:
        eventually(lambda: _allowed(control_plane), "the roles have taken effect")
        asyncio.run(ask())
    finally:
        control_plane.kubectl("delete", "rolebinding", "helpdesk-reader")


def _allowed(control_plane: Cluster) -> bool:
    asked = ("auth", "can-i", "list", "configmaps", "--quiet")
    as_account = ("--as=system:serviceaccount:default:default", "-n", "default")
    return control_plane.kubectl(*asked, *as_account, check=False).returncode == 0


def test_the_account_has_the_rights_that_are_declared(control_plane: Cluster, applied: None) -> None:
    declared = [
        Need("", "configmaps", "", ("list", "watch"), as_user=True),
        Need("", "secrets", "", ("get",), "default", ("helpdesk",)),
        Need("", "nodes", "", ("list", "watch")),
    ]
    others = [
        Need("", "configmaps", "", ("list", "get"), as_user=True, place="a.py:1"),
        Need("", "configmaps", "", ("list",), place="a.py:2"),
        Need("", "secrets", "", ("get",), "default", place="a.py:3"),
    ]

    async def ask() -> tuple[list[str], list[str]]:
        client = await connect(str(control_plane.user(ACCOUNT, GROUPS)), "test")
        try:
            return await rights.missing(client, declared), await rights.missing(client, others)
        finally:
            await client.close()

    missing, missing_others = asyncio.run(ask())
    assert missing == []
    assert missing_others == [
        "impersonate-on:user-info:get configmaps (a.py:1)",
        "list configmaps (a.py:2)",
        "get secrets in default (a.py:3)",
    ]

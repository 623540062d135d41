"""`aggserver manifests`: its objects are those of `manifests/`, under the App's name, and roles follow from verbs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.commands.manifests.objects import Installation, objects
from aggserver.commands.manifests.roles import rules
from aggserver.meta.resource import ResourceInfo
from aggserver.options import parse
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.resources.needs import Need
from tests.command import REPOSITORY, run

MANIFESTS = REPOSITORY / "manifests"
# What the command has in place of these: no folder of definitions; roles by the App's own verbs. Or leaves to whoever runs it.
OTHERS = {
    *("aggregate-to-edit.yaml", "aggregate-to-view.yaml", "kustomization.yaml"),
    *("network-policy.yaml", "pod-disruption-budget.yaml"),
}
# Objects that are made of resources: compared apart from that.
SPECIAL = {"api-service-policy.yaml", "deployment.yaml"}

SITES = APIResource(
    ResourceInfo("example.com", "v1", "sites", "Site", "SiteList", namespaced=True),
    ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
    subresources=(
        APISubresource("status", "Site", ("get", "patch", "update")),
        APISubresource("scale", "Scale", ("get", "patch", "update")),
        APISubresource("approve", "Site", ("create",)),
        APISubresource("log", "Site", ("get",)),
    ),
)
TICKETS = APIResource(ResourceInfo("example.com", "v1", "tickets", "Ticket", "TicketList", namespaced=True), ("get", "list"))
OFFERED = [("example.com", SITES), ("example.com", TICKETS)]


def installation(*, is_stored: bool, runs_tasks: bool = True) -> Installation:
    return Installation("helpdesk", "helpdesk-system", "registry/helpdesk:1", ["helpdesk:app"], OFFERED, is_stored, runs_tasks)


def key(obj: dict[str, Any]) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def renamed(text: str) -> str:
    return text.replace("aggserver", "helpdesk")


def load(name: str) -> dict[str, Any]:
    """A file of `manifests/`, for a server that is named helpdesk."""
    found: dict[str, Any] = yaml.safe_load(renamed((MANIFESTS / name).read_text()))
    return found


MADE = {key(obj): obj for _, obj in objects(installation(is_stored=True))}
FILES = sorted(path.name for path in MANIFESTS.glob("*.yaml") if path.name not in OTHERS | SPECIAL)


@pytest.mark.parametrize("name", FILES)
def test_an_object_is_that_of_the_file(name: str) -> None:
    wanted = load(name)
    assert MADE[key(wanted)] == wanted


def test_there_is_no_other_object() -> None:
    files = {key(load(name)) for name in (*FILES, *SPECIAL)}
    assert {*MADE} - files == {("ClusterRole", "", f"helpdesk:{level}") for level in ("view", "edit", "admin")}


def test_the_policy_names_the_groups() -> None:
    wanted = load("api-service-policy.yaml")
    made = MADE[key(wanted)]
    own, theirs = made["spec"].pop("validations"), wanted["spec"].pop("validations")
    assert made == wanted
    assert [each["expression"].split() for each in (own[0], own[2])] == [
        each["expression"].split() for each in (theirs[0], theirs[2])
    ]
    assert own[1]["expression"] == 'variables.states.all(state, state.spec.group in ["example.com"])'


def test_the_deployment_differs_by_the_app() -> None:
    wanted = load("deployment.yaml")
    made: dict[str, Any] = yaml.safe_load(renamed(yaml.safe_dump(MADE[key(wanted)])))
    [ours], [theirs] = (each["spec"]["template"]["spec"]["containers"] for each in (made, wanted))
    assert ours.pop("image") == "registry/helpdesk:1"
    assert ours.pop("args")[:2] == ["serve", "--app=helpdesk:app"]
    theirs.pop("image")
    theirs.pop("args")
    theirs["volumeMounts"] = [each for each in theirs["volumeMounts"] if each["name"] != "definitions"]
    pod = wanted["spec"]["template"]["spec"]
    pod["volumes"] = [each for each in pod["volumes"] if each["name"] != "definitions"]
    assert made == wanted


@pytest.mark.parametrize("is_stored", [True, False])
def test_the_server_takes_its_arguments(is_stored: bool) -> None:
    made = {key(obj): obj for _, obj in objects(installation(is_stored=is_stored))}
    deployment = made["Deployment", "helpdesk-system", "helpdesk"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [re.sub(r"\$\(POD_NAMESPACE\)", "helpdesk-system", each) for each in container["args"]]
    options = parse(arguments, {})
    assert (options.apps, options.service_name, options.secure_port) == (("helpdesk:app",), "helpdesk", 6443)
    assert options.data == ("/var/lib/aggserver" if is_stored else ":memory:")
    assert deployment["spec"].get("strategy") == ({"type": "Recreate"} if is_stored else None)
    assert (("PersistentVolumeClaim", "helpdesk-system", "helpdesk-data") in made) == is_stored


NEEDS = [
    Need("", "nodes", "", ("list", "watch")),
    Need("apps", "deployments", "scale", ("get",)),
    Need("apps", "statefulsets", "scale", ("get",)),
    Need("", "secrets", "", ("get",), "shop", ("token",)),
    Need("shops.example.com", "shops", "", ("list",), as_user=True),
    Need("", "pods", "log", ("get",), "shop", as_user=True),
]
# (kind, namespace, name) -> rules: (groups, resources, verbs, names)
NEEDED: dict[tuple[str, str, str], list[tuple[list[str], list[str], list[str], list[str]]]] = {
    ("ClusterRole", "", "helpdesk:needs"): [
        ([""], ["nodes"], ["list", "watch"], []),
        (["apps"], ["deployments/scale", "statefulsets/scale"], ["get"], []),
    ],
    ("Role", "shop", "helpdesk:needs"): [([""], ["secrets"], ["get"], ["token"])],
    ("ClusterRole", "", "helpdesk:as-users"): [
        (["authentication.k8s.io"], ["*"], ["impersonate:user-info"], []),
        (["authentication.k8s.io"], ["serviceaccounts"], ["impersonate:serviceaccount"], []),
        (["shops.example.com"], ["shops"], ["impersonate-on:user-info:list", "impersonate-on:serviceaccount:list"], []),
    ],
    ("Role", "shop", "helpdesk:as-users"): [
        ([""], ["pods/log"], ["impersonate-on:user-info:get", "impersonate-on:serviceaccount:get"], [])
    ],
}


def test_rights_that_the_app_declares() -> None:
    made = {key(obj): obj for _, obj in objects(replace(installation(is_stored=True), needs=NEEDS))}
    more = made.keys() - MADE.keys()
    assert more == NEEDED.keys() | {(f"{kind}Binding", namespace, name) for kind, namespace, name in NEEDED}
    for where, wanted in NEEDED.items():
        found = [(r["apiGroups"], r["resources"], r["verbs"], r.get("resourceNames", [])) for r in made[where]["rules"]]
        assert found == wanted, where
        binding = made[f"{where[0]}Binding", *where[1:]]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (where[0], where[2])
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "helpdesk", "namespace": "helpdesk-system"}]


def test_users_in_one_namespace_need_a_role_for_themselves() -> None:
    made = {key(obj): obj for _, obj in objects(replace(installation(is_stored=True), needs=NEEDS[-1:]))}
    [(group, *_), _] = [rule["apiGroups"] for rule in made["ClusterRole", "", "helpdesk:as-users"]["rules"]]
    assert group == "authentication.k8s.io"


ROLES = {
    "view": [
        {"apiGroups": ["example.com"], "resources": ["sites"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["example.com"], "resources": ["sites/log", "sites/scale", "sites/status"], "verbs": ["get"]},
        {"apiGroups": ["example.com"], "resources": ["tickets"], "verbs": ["get", "list"]},
    ],
    "edit": [
        {
            "apiGroups": ["example.com"],
            "resources": ["sites"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
        },
        {"apiGroups": ["example.com"], "resources": ["sites/log", "sites/status"], "verbs": ["get"]},
        {"apiGroups": ["example.com"], "resources": ["sites/scale"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": ["example.com"], "resources": ["sites/approve"], "verbs": ["create"]},
        {"apiGroups": ["example.com"], "resources": ["tickets"], "verbs": ["get", "list"]},
    ],
    "admin": [
        {
            "apiGroups": ["example.com"],
            "resources": ["sites"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
        },
        {"apiGroups": ["example.com"], "resources": ["sites/scale", "sites/status"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": ["example.com"], "resources": ["sites/approve"], "verbs": ["create"]},
        {"apiGroups": ["example.com"], "resources": ["sites/log"], "verbs": ["get"]},
        {"apiGroups": ["example.com"], "resources": ["tickets"], "verbs": ["get", "list"]},
    ],
}


@pytest.mark.parametrize(("level", "expected"), ROLES.items(), ids=ROLES)
def test_roles_follow_from_verbs(level: str, expected: list[dict[str, Any]]) -> None:
    def ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(found, key=lambda rule: str(rule["resources"]))

    assert ordered(rules(level, OFFERED)) == ordered(expected)


APP = """
from dataclasses import dataclass
from aggserver import App, Metadata

@dataclass
class Greeting:
    metadata: Metadata

app = App()
greetings = app.virtual("demo.example.com/v1", Greeting)
greetings.list(lambda request: [])
greetings.get(lambda request, name: None)
"""


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "my_hello.py").write_text(APP)
    done = run("manifests", "--app", "my_hello:app", "--image", "hello:1", "--namespace", "here", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    made = {key(obj): obj for obj in yaml.safe_load_all(done.stdout)}
    assert ("Deployment", "here", "my-hello") in made
    expected = [{"apiGroups": ["demo.example.com"], "resources": ["greetings"], "verbs": ["get", "list"]}]
    assert made["ClusterRole", "", "my-hello:edit"]["rules"] == expected
    assert [file.name for file in tmp_path.iterdir() if file.name != "__pycache__"] == ["my_hello.py"]


@pytest.mark.parametrize("keeps", ["", "metadata", "sidecar"])
def test_a_sidecar_needs_a_volume(tmp_path: Path, keeps: str) -> None:
    (tmp_path / "hello.py").write_text(APP.replace('v1", Greeting', f'v1", Greeting, keeps="{keeps}"'))
    done = run("manifests", "--app", "hello:app", "--image", "hello:1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    kinds = [obj["kind"] for obj in yaml.safe_load_all(done.stdout)]
    assert kinds.count("PersistentVolumeClaim") == (keeps == "sidecar")


WRONG = {
    "no image": (["--app", "hello:app"], 2, "manifests: --app and --image are required"),
    "no app": (["--image", "x"], 2, "manifests: --app and --image are required"),
    "no module": (["--app", "nothing:app", "--image", "x"], 1, "there is no module nothing in this folder"),
    "no namespace": (
        ["--app", "hello:app", "--image", "x", "--namespace", "My_Own"],
        2,
        "--namespace 'My_Own': a lowercase RFC 1123 label must consist of",
    ),
    "a name that no Service can have": (
        ["--app", "_hello:app", "--image", "x"],
        2,
        "_hello:app: the Service can't be named '-hello'",
    ),
}


@pytest.mark.parametrize(("arguments", "status", "why"), WRONG.values(), ids=WRONG)
def test_what_it_refuses(tmp_path: Path, arguments: list[str], status: int, why: str) -> None:
    for name in ("_hello.py", "hello.py"):
        (tmp_path / name).write_text(APP)
    done = run("manifests", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("aggserver: ")
    assert why in done.stderr


def test_only_tasks_need_a_lease() -> None:
    without = {key(obj) for _, obj in objects(installation(is_stored=True, runs_tasks=False))}
    left_out = {("Role", "helpdesk-system", "helpdesk:tasks"), ("RoleBinding", "helpdesk-system", "helpdesk:tasks")}
    assert MADE.keys() - without == left_out

"""`aggserver dev` as its user meets it: the Kubernetes page with the real kubectl, and what standalone promises beside."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster, Kubectl
from tests.integration import pages
from tests.integration.server import Standalone, running
from tests.waiting import KUBECTL_LIMIT


def out(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout


def rows(text: str) -> list[list[str]]:
    """A table as its cells, columns split at two spaces and more."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def establish(kubectl: Kubectl, definition: str) -> None:
    kubectl("apply", "-f", "-", input=definition)
    name = re.search(r"^  name: (\S+)", definition, re.MULTILINE)
    assert name is not None
    kubectl("wait", "--for=condition=Established", f"crd/{name.group(1)}", KUBECTL_LIMIT)


def test_the_page_up_to_deletion(kubectl: Kubectl) -> None:
    assert out(kubectl("apply", "-f", "-", input=pages.RESOURCE_DEFINITION)) == (
        "customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com created\n"
    )
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", KUBECTL_LIMIT)
    assert out(kubectl("apply", "-f", "-", input=pages.MY_CRONTAB)) == ("crontab.stable.example.com/my-new-cron-object created\n")
    header, row = rows(out(kubectl("get", "crontab")))
    assert header == ["NAME", "AGE"]
    assert row[0] == "my-new-cron-object"
    assert re.fullmatch(r"\d+s", row[1])

    shown = out(kubectl("get", "ct", "-o", "yaml"))
    applied = (
        '{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"annotations":{},"name":"my-new-cron-object",'
        '"namespace":"default"},"spec":{"cronSpec":"* * * * */5","image":"my-awesome-cron-image"}}'
    )
    pattern = rf"""apiVersion: v1
items:
- apiVersion: stable.example.com/v1
  kind: CronTab
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: \|
        {re.escape(applied)}
    creationTimestamp: "\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    generation: 1
    name: my-new-cron-object
    namespace: default
    resourceVersion: "\d+"
    uid: [0-9a-f-]{{36}}
  spec:
    cronSpec: '\* \* \* \* \*/5'
    image: my-awesome-cron-image
kind: List
metadata:
  resourceVersion: ""
"""
    assert re.fullmatch(pattern, shown), shown

    kubectl("delete", "-f", "-", input=pages.RESOURCE_DEFINITION)
    gone = kubectl("get", "crontabs", check=False)
    assert gone.returncode == 1
    assert "the server doesn't have a resource type" in gone.stderr or "could not find the requested resource" in gone.stderr

    establish(kubectl, pages.RESOURCE_DEFINITION)
    assert kubectl("get", "crontabs").stderr == "No resources found in default namespace.\n"


def test_unknown_fields_are_pruned(kubectl: Kubectl) -> None:
    establish(kubectl, pages.RESOURCE_DEFINITION)
    shown = out(kubectl("create", "--validate=false", "-f", "-", "-o", "yaml", input=pages.MY_CRONTAB_WITH_RANDOM_FIELD))
    assert "someRandomField" not in shown
    assert "image: my-awesome-cron-image" in shown
    refused = kubectl("apply", "-f", "-", input=pages.MY_CRONTAB_WITH_RANDOM_FIELD, check=False)
    assert 'unknown field "spec.someRandomField"' in refused.stderr


def test_columns(kubectl: Kubectl) -> None:
    establish(kubectl, pages.WITH_COLUMNS)
    kubectl("apply", "-f", "-", input=pages.MY_CRONTAB_WITH_REPLICAS)
    header, row = rows(out(kubectl("get", "crontab", "my-new-cron-object")))
    assert header == ["NAME", "SPEC", "REPLICAS", "AGE"]
    assert row[:3] == ["my-new-cron-object", "* * * * */5", "3"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("spec.color=blue", ["example1", "example2"], id="one-field"),
        # The page prints example2 here; the green shirt of size M is example3.
        pytest.param("spec.color=green,spec.size=M", ["example3"], id="two-fields"),
        pytest.param("spec.color!=blue", ["example3"], id="unequal"),
        pytest.param("metadata.name=example1", ["example1"], id="name"),
    ],
)
def test_field_selectors(kubectl: Kubectl, selector: str, names: list[str]) -> None:
    establish(kubectl, pages.SHIRTS)
    kubectl("apply", "-f", "-", input=pages.SHIRT_RESOURCES)
    table = rows(out(kubectl("get", "shirts.stable.example.com", "--field-selector", selector)))
    assert table[0] == ["NAME", "COLOR", "SIZE"]
    assert [row[0] for row in table[1:]] == names


def test_field_that_is_not_selectable(kubectl: Kubectl) -> None:
    establish(kubectl, pages.SHIRTS)
    refused = kubectl("get", "shirts", "--field-selector", "spec.brand=x", check=False)
    assert "field label not supported: spec.brand" in refused.stderr


def test_scale(kubectl: Kubectl) -> None:
    establish(kubectl, pages.WITH_SUBRESOURCES)
    kubectl("apply", "-f", "-", input=pages.MY_CRONTAB_WITH_REPLICAS)
    scaled = out(kubectl("scale", "--replicas=5", "crontabs/my-new-cron-object"))
    assert scaled == "crontab.stable.example.com/my-new-cron-object scaled\n"
    assert out(kubectl("get", "crontabs", "my-new-cron-object", "-o", "jsonpath={.spec.replicas}")) == "5"


def test_status_subresource(kubectl: Kubectl) -> None:
    establish(kubectl, pages.WITH_SUBRESOURCES)
    kubectl("apply", "-f", "-", input=pages.MY_CRONTAB_WITH_REPLICAS)
    patch = '{"status":{"replicas":2},"spec":{"replicas":9}}'
    kubectl("patch", "crontab", "my-new-cron-object", "--subresource=status", "--type=merge", "-p", patch)
    kubectl("patch", "crontab", "my-new-cron-object", "--type=merge", "-p", '{"status":{"replicas":7}}')
    shown = out(
        kubectl(
            "get", "crontab", "my-new-cron-object", "-o", "jsonpath={.spec.replicas} {.status.replicas} {.metadata.generation}"
        )
    )
    assert shown == "3 2 1"


def test_categories(kubectl: Kubectl) -> None:
    establish(kubectl, pages.WITH_CATEGORY)
    kubectl("api-resources", "--cached=false")  # kubectl looks a category up in what it once discovered
    kubectl("apply", "-f", "-", input=pages.MY_CRONTAB)
    header, row = rows(out(kubectl("get", "all", "--selector=!component")))  # without the Service `kubernetes`
    assert header == ["NAME", "AGE"]
    # kubectl puts the kind before the name where there may be several, as in the category `all`.
    assert row[0] == "crontab.stable.example.com/my-new-cron-object"


def test_finalizers(kubectl: Kubectl) -> None:
    establish(kubectl, pages.RESOURCE_DEFINITION)
    with_finalizer = pages.MY_CRONTAB.replace(
        "  name: my-new-cron-object\n", "  name: my-new-cron-object\n  finalizers:\n  - stable.example.com/finalizer\n"
    )
    kubectl("apply", "-f", "-", input=with_finalizer)
    kubectl("delete", "crontab", "my-new-cron-object", "--wait=false")
    assert out(kubectl("get", "crontab", "my-new-cron-object", "-o", "jsonpath={.metadata.deletionTimestamp}"))
    refused = kubectl(
        *("patch", "crontab", "my-new-cron-object", "--type=json"),
        *("-p", '[{"op":"add","path":"/metadata/finalizers/-","value":"a.example.com/b"}]'),
        check=False,
    )
    assert "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted" in refused.stderr
    kubectl("patch", "crontab", "my-new-cron-object", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    kubectl("wait", "--for=delete", "crontab/my-new-cron-object", KUBECTL_LIMIT)


def test_kubectl_everyday(kubectl: Kubectl) -> None:
    establish(kubectl, pages.WITH_COLUMNS)
    kubectl("apply", "-f", "-", input=pages.MY_CRONTAB_WITH_REPLICAS)
    assert "unchanged" in out(kubectl("apply", "-f", "-", input=pages.MY_CRONTAB_WITH_REPLICAS))
    changed = pages.MY_CRONTAB_WITH_REPLICAS.replace("replicas: 3", "replicas: 4")
    assert "configured" in out(kubectl("apply", "-f", "-", input=changed))
    kubectl("label", "crontab", "my-new-cron-object", "tier=backend")
    assert "my-new-cron-object" in out(kubectl("get", "ct", "-l", "tier=backend", "-o", "name"))
    assert out(kubectl("get", "ct", "-l", "tier=frontend", "-o", "name")) == ""
    kubectl("annotate", "crontab", "my-new-cron-object", "note=x")
    described = out(kubectl("describe", "crontab", "my-new-cron-object"))
    assert "Cron Spec:  * * * * */5" in described
    explained = out(kubectl("explain", "crontab.spec.replicas"))
    assert "FIELD: replicas <integer>" in explained
    resources = out(kubectl("api-resources", "--api-group=stable.example.com"))
    assert rows(resources)[1] == ["crontabs", "ct", "stable.example.com/v1", "true", "CronTab"]
    whoami = out(kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))
    assert whoami == "aggserver-admin"
    assert out(kubectl("auth", "can-i", "delete", "crontabs")) == "yes\n"
    assert "Server Version: v1.36" in out(kubectl("version"))
    replaced = changed.replace("my-awesome-cron-image", "other")
    kubectl("replace", "-f", "-", input=replaced)
    assert out(kubectl("get", "ct", "my-new-cron-object", "-o", "jsonpath={.spec.image}")) == "other"
    kubectl("delete", "crontab", "my-new-cron-object")
    assert kubectl("get", "ct").stderr == "No resources found in default namespace.\n"


@pytest.mark.parametrize("command", ["create", "apply"])
def test_a_list_comes_back_from_a_file(kubectl: Kubectl, command: str) -> None:
    """kubectl itself checks a `kind: List`, by OpenAPI v2 as protobuf."""
    establish(kubectl, pages.WITH_COLUMNS)
    names = ["crontab.stable.example.com/another-cron-object", "crontab.stable.example.com/my-new-cron-object"]
    second = pages.MY_CRONTAB_WITH_REPLICAS.replace("my-new", "another")
    kubectl("create", "-f", "-", input=f"{pages.MY_CRONTAB_WITH_REPLICAS}---\n{second}")
    saved = out(kubectl("get", "crontabs", "-o", "yaml"))
    assert "kind: List" in saved
    kubectl("delete", "crontabs", "--all")
    refused = kubectl(command, "-f", "-", input=saved.replace("image:", "imag:"), check=False)
    assert 'ValidationError(CronTab.spec): unknown field "imag" in com.example.stable.v1.CronTab.spec' in refused.stderr
    assert out(kubectl(command, "-f", "-", input=saved)) == "".join(f"{name} created\n" for name in names)
    assert out(kubectl("get", "crontabs", "-o", "name")).split() == names


def test_explain_by_openapi_v2(kubectl: Kubectl) -> None:
    establish(kubectl, pages.WITH_COLUMNS)
    explained = out(kubectl("explain", "--output=plaintext-openapiv2", "crontab.spec"))
    assert re.search(r"KIND:\s+CronTab\nVERSION:\s+stable\.example\.com/v1\n", explained), explained
    assert re.search(r"RESOURCE:\s+spec <Object>", explained), explained
    assert re.search(r"cronSpec\s+<string>\n[\s\S]*replicas\s+<integer>", explained), explained


def test_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    establish(kubectl, pages.RESOURCE_DEFINITION)
    kubectl("apply", "-f", "-", input=pages.MY_CRONTAB)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/my-awesome-cron-image/edited/' \"$1\"\n")
    editor.chmod(0o755)
    assert "edited" in out(kubectl("edit", "crontab", "my-new-cron-object", environment={"KUBE_EDITOR": str(editor)}))
    assert out(kubectl("get", "ct", "my-new-cron-object", "-o", "jsonpath={.spec.image}")) == "edited"


def test_namespaces(kubectl: Kubectl) -> None:
    assert "default" in out(kubectl("get", "namespaces", "-o", "name"))
    establish(kubectl, pages.RESOURCE_DEFINITION)
    kubectl("create", "namespace", "team")
    kubectl("apply", "-n", "team", "-f", "-", input=pages.MY_CRONTAB)
    missing = kubectl("create", "-n", "nowhere", "-f", "-", input=pages.MY_CRONTAB, check=False)
    assert missing.stderr == 'Error from server (NotFound): error when creating "STDIN": namespaces "nowhere" not found\n'
    kubectl("delete", "namespace", "team", KUBECTL_LIMIT)
    assert out(kubectl("get", "crontabs", "-A", "-o", "name")) == ""
    assert "team" not in out(kubectl("get", "namespaces", "-o", "name"))


def test_definition_with_a_live_finalizer_waits(kubectl: Kubectl) -> None:
    establish(kubectl, pages.RESOURCE_DEFINITION)
    with_finalizer = pages.MY_CRONTAB.replace("metadata:\n", "metadata:\n  finalizers: [stable.example.com/finalizer]\n")
    kubectl("apply", "-f", "-", input=with_finalizer)
    kubectl("delete", "crd", "crontabs.stable.example.com", "--wait=false")
    refused = kubectl("create", "-f", "-", input=pages.MY_CRONTAB.replace("my-new", "another"), check=False)
    assert "create not allowed while custom resource definition is terminating" in refused.stderr
    kubectl("patch", "crontab", "my-new-cron-object", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    kubectl("wait", "--for=delete", "crd/crontabs.stable.example.com", KUBECTL_LIMIT)


def test_kubeconfig_is_private(standalone: Standalone) -> None:
    assert stat.S_IMODE(standalone.kubeconfig.stat().st_mode) == 0o600
    for file in (standalone.folder / "certificates").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_data_stays_between_runs(control_plane: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with running(first := Standalone(folder)):
        control_plane.kubectl("apply", "-f", "-", user=first.kubeconfig, input=pages.RESOURCE_DEFINITION)
        control_plane.kubectl(
            "wait", "--for=condition=Established", "crd/crontabs.stable.example.com", KUBECTL_LIMIT, user=first.kubeconfig
        )
        control_plane.kubectl("apply", "-f", "-", user=first.kubeconfig, input=pages.MY_CRONTAB)
        before = control_plane.kubectl("get", "ct", "my-new-cron-object", "-o", "json", user=first.kubeconfig).stdout
        old = first.kubeconfig.read_bytes()
        old_port = first.port
    with running(second := Standalone(folder)):
        after = control_plane.kubectl("get", "ct", "my-new-cron-object", "-o", "json", user=second.kubeconfig).stdout
        assert after == before
        # A kubeconfig of an earlier run still lets in: the CA is kept.
        earlier = tmp_path / "earlier"
        earlier.write_bytes(old.replace(f":{old_port}".encode(), f":{second.port}".encode()))
        assert "my-new-cron-object" in control_plane.kubectl("get", "ct", "-o", "name", user=earlier).stdout


def test_files_are_planted(control_plane: Cluster, tmp_path: Path) -> None:
    definition, obj = tmp_path / "definition.yaml", tmp_path / "object.yaml"
    definition.write_text(pages.RESOURCE_DEFINITION)
    obj.write_text(pages.MY_CRONTAB)
    for _ in range(2):  # the second time over what is there
        with running(server := Standalone(tmp_path / "data", "-f", str(obj), "-f", str(definition))):
            shown = control_plane.kubectl("get", "ct", "my-new-cron-object", "-o", "name", user=server.kubeconfig).stdout
            assert shown == "crontab.stable.example.com/my-new-cron-object\n"

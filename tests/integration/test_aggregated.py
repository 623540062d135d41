"""aggserver behind the aggregation layer as users of the cluster meet it: kubectl, RBAC, namespaces, garbage collection."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.controlplane.cluster import Cluster, Kubectl
from tests.integration import pages
from tests.integration.aggregation import API_SERVICE, NAMESPACE, SERVICE, Aggregation
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.integration.watching import watching
from tests.integration.websockets import Asked, open_websocket
from tests.waiting import KUBECTL_LIMIT

NAME = "my-new-cron-object"


@pytest.fixture
def kubectl(aggregated: Cluster, namespace: str) -> Kubectl:
    """kubectl in a namespace of the test's own."""

    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return aggregated.kubectl("-n", namespace, *arguments, **more)

    return run


def rows(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """A table as its cells, columns split at two spaces and more."""
    return [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]


def create(kubectl: Kubectl, manifest: str = pages.MY_CRONTAB) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(kubectl("create", "-f", "-", "-o", "json", input=manifest).stdout)
    return made


# --- "Set up an Extension API Server"


def test_the_manifests_are_accepted(aggregation: Aggregation) -> None:
    assert aggregation.applied.stderr == ""  # no warning either, pod security's above all
    made = [line.split()[0] for line in aggregation.applied.stdout.splitlines()]
    assert len(made) == len(aggregation.objects)
    assert aggregation.plane.kubectl("diff", "-f", "-", input=aggregation.manifests).stdout == ""


def test_set_up_an_extension_api_server(aggregated: Cluster, namespace: str) -> None:
    assert "apiregistration.k8s.io/v1" in aggregated.kubectl("api-versions").stdout.split()
    secret = aggregated.get("secret", f"{SERVICE}-certificates", "-n", NAMESPACE)["data"]
    service = aggregated.get("apiservice", API_SERVICE)
    assert service["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "aggserver"}
    target = service["spec"]["service"]
    assert (target["namespace"], target["name"]) == (NAMESPACE, SERVICE)
    assert (service["spec"]["groupPriorityMinimum"], service["spec"]["versionPriority"]) == (1000, 100)
    assert service["spec"]["caBundle"] in secret.values()
    names = serving_names(secret)
    assert f"{SERVICE}.{NAMESPACE}.svc" in names

    empty = aggregated.kubectl("get", "crontabs", "-n", namespace)
    assert (empty.stdout, empty.stderr) == ("", f"No resources found in {namespace} namespace.\n")


def test_nothing_in_the_default_namespace(aggregated: Cluster) -> None:
    empty = aggregated.kubectl("get", "crontabs")
    assert (empty.stdout, empty.stderr) == ("", "No resources found in default namespace.\n")


def serving_names(secret: dict[str, str]) -> set[str]:
    """DNS names of the certificates in a Secret."""
    names: set[str] = set()
    for text in secret.values():
        content = base64.b64decode(text)
        if b"BEGIN CERTIFICATE" not in content:
            continue
        for certificate in x509.load_pem_x509_certificates(content):
            for extension in certificate.extensions:
                if isinstance(extension.value, x509.SubjectAlternativeName):
                    names.update(extension.value.get_values_for_type(x509.DNSName))
    return names


# --- kubectl


def test_kubectl_everyday(kubectl: Kubectl, namespace: str) -> None:
    created = kubectl("create", "-f", "-", input=pages.MY_CRONTAB).stdout
    assert created == f"crontab.stable.example.com/{NAME} created\n"
    header, row = rows(kubectl("get", "crontabs", "-o", "wide"))
    assert header == ["NAME", "AGE"]
    assert row[0] == NAME
    shown = kubectl("get", "ct", NAME, "-o", "yaml").stdout
    assert f"  name: {NAME}\n  namespace: {namespace}\n" in shown
    assert shown.endswith("spec:\n  cronSpec: '* * * * */5'\n  image: my-awesome-cron-image\n")

    assert "labeled" in kubectl("label", "crontab", NAME, "tier=backend").stdout
    assert kubectl("get", "ct", "-l", "tier=backend", "-o", "name").stdout == f"crontab.stable.example.com/{NAME}\n"
    assert kubectl("get", "ct", "-l", "tier=frontend", "-o", "name").stdout == ""
    assert kubectl("get", "ct", "--field-selector", f"metadata.name={NAME}", "-o", "name").stdout
    assert "annotated" in kubectl("annotate", "crontab", NAME, "note=x").stdout
    assert "patched" in kubectl("patch", "crontab", NAME, "--type=merge", "-p", '{"spec":{"replicas":2}}').stdout
    shown = kubectl(
        "get", "crontab", NAME, "-o", "jsonpath={.spec.replicas} {.metadata.generation} {.metadata.labels.tier}"
    ).stdout
    assert shown == "2 2 backend"
    assert "Cron Spec:  * * * * */5" in kubectl("describe", "crontab", NAME).stdout
    assert (
        "Conflict"
        in kubectl("patch", "crontab", NAME, "--type=merge", "-p", '{"metadata":{"resourceVersion":"1"}}', check=False).stderr
    )
    again = kubectl("create", "-f", "-", input=pages.MY_CRONTAB, check=False).stderr
    assert again == (
        f'Error from server (AlreadyExists): error when creating "STDIN": crontabs.stable.example.com "{NAME}" already exists\n'
    )
    assert kubectl("delete", "crontab", NAME).stdout.startswith(f'crontab.stable.example.com "{NAME}" deleted')
    missing = kubectl("get", "crontab", NAME, check=False).stderr
    assert missing == f'Error from server (NotFound): crontabs.stable.example.com "{NAME}" not found\n'


def test_apply(kubectl: Kubectl) -> None:
    manifest = pages.MY_CRONTAB_WITH_REPLICAS
    assert "created" in kubectl("apply", "-f", "-", input=manifest).stdout
    assert "unchanged" in kubectl("apply", "-f", "-", input=manifest).stdout
    assert "configured" in kubectl("apply", "-f", "-", input=manifest.replace("replicas: 3", "replicas: 4")).stdout
    assert kubectl("diff", "-f", "-", input=manifest, check=False).returncode == 1
    assert "replaced" in kubectl("replace", "-f", "-", input=manifest).stdout


def test_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    create(kubectl)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/my-awesome-cron-image/edited/' \"$1\"\n")
    editor.chmod(0o755)
    assert "edited" in kubectl("edit", "crontab", NAME, environment={"KUBE_EDITOR": str(editor)}).stdout
    assert kubectl("get", "ct", NAME, "-o", "jsonpath={.spec.image}").stdout == "edited"


def test_unknown_fields(kubectl: Kubectl) -> None:
    refused = kubectl("apply", "-f", "-", input=pages.MY_CRONTAB_WITH_RANDOM_FIELD, check=False)
    assert refused.stderr == (
        'Error from server (BadRequest): error when creating "STDIN": CronTab in version "v1" cannot be handled as a CronTab: '
        'strict decoding error: unknown field "spec.someRandomField"\n'
    )
    warned = kubectl("create", "--validate=warn", "-f", "-", input=pages.MY_CRONTAB_WITH_RANDOM_FIELD)
    assert warned.stderr == 'Warning: unknown field "spec.someRandomField"\n'
    kubectl("delete", "crontab", NAME)
    done = kubectl("apply", "--validate=false", "-f", "-", "-o", "json", input=pages.MY_CRONTAB_WITH_RANDOM_FIELD)
    assert json.loads(done.stdout)["spec"] == {"cronSpec": "* * * * */5", "image": "my-awesome-cron-image"}


def test_explain(kubectl: Kubectl) -> None:
    # The aggregator fetches an OpenAPI document some time after its APIService is available.
    def explained() -> str:
        return kubectl("explain", "crontab.spec.replicas", check=False).stdout

    text = eventually(explained, "kubectl explain")
    assert text.startswith("GROUP:      stable.example.com\nKIND:       CronTab\nVERSION:    v1\n\nFIELD: replicas <integer>\n")


def test_api_resources(kubectl: Kubectl) -> None:
    table = rows(kubectl("api-resources", "--api-group=stable.example.com", "-o", "wide"))
    assert table[1][:6] == ["crontabs", "ct", "stable.example.com/v1", "true", "CronTab", VERBS]
    assert "stable.example.com/v1" in kubectl("api-versions").stdout.split()


VERBS = "delete,deletecollection,get,list,patch,create,update,watch"


def test_watch(aggregated: Cluster, kubectl: Kubectl, namespace: str) -> None:
    with watching(aggregated, namespace) as watch:
        create(kubectl)
        kubectl("label", "crontab", NAME, "tier=backend")
        kubectl("delete", "crontab", NAME)
        assert watch.events(NAME, "DELETED") == ["ADDED", "MODIFIED", "DELETED"]


def test_watch_over_a_websocket(aggregated: Cluster, kubectl: Kubectl, namespace: str) -> None:
    create(kubectl)
    watch = f"/apis/stable.example.com/v1/namespaces/{namespace}/crontabs?watch=1&timeoutSeconds=1"
    with Client(aggregated.kubeconfig) as client:
        seen = open_websocket(client, Asked(watch, [("sec-websocket-protocol", "a")]))
        assert (seen.status, seen.headers["sec-websocket-protocol"]) == (101, "a")
        (kind, (event, *_)), end = seen.messages
        assert (kind, event["type"], event["object"]["metadata"]["name"]) == ("text", "ADDED", NAME)
        assert end == ("close", 1000)
        # refused by aggserver, and told in plain HTTP
        assert open_websocket(client, Asked(f"{watch}&fieldSelector=nothing%3Dx")).status == 400


def test_many_in_pages(kubectl: Kubectl) -> None:
    manifests = "\n---\n".join(pages.MY_CRONTAB.replace(NAME, f"number-{number}") for number in range(12))
    kubectl("create", "-f", "-", input=manifests)
    assert len(kubectl("get", "crontabs", "--chunk-size=5", "-o", "name").stdout.split()) == 12
    kubectl("delete", "crontabs", "--all")
    assert kubectl("get", "crontabs", "-o", "name").stdout == ""


# --- who may do what


def test_a_user_without_rights(aggregated: Cluster) -> None:
    nobody = aggregated.user("nobody", ["strangers"])
    refused = aggregated.kubectl("get", "crontabs", user=nobody, check=False)
    assert refused.stderr == (
        'Error from server (Forbidden): crontabs.stable.example.com is forbidden: User "nobody" cannot list resource "crontabs" '
        'in API group "stable.example.com" in the namespace "default"\n'
    )


def test_a_role_in_one_namespace(aggregated: Cluster, kubectl: Kubectl, namespace: str) -> None:
    rights = ("--verb=get,list,create", "--resource=crontabs.stable.example.com")
    kubectl("create", "role", "reader", *rights)
    kubectl("create", "rolebinding", "reader", "--role=reader", "--user=jane")
    jane = aggregated.user("jane")
    allowed(aggregated, jane, namespace)
    aggregated.kubectl("-n", namespace, "create", "-f", "-", input=pages.MY_CRONTAB, user=jane)
    refused = aggregated.kubectl("-n", namespace, "delete", "crontab", NAME, user=jane, check=False)
    assert refused.stderr == (
        f'Error from server (Forbidden): crontabs.stable.example.com "{NAME}" is forbidden: User "jane" cannot delete resource '
        f'"crontabs" in API group "stable.example.com" in the namespace "{namespace}"\n'
    )
    elsewhere = aggregated.kubectl("get", "crontabs", "-n", "default", user=jane, check=False)
    assert 'User "jane" cannot list resource "crontabs"' in elsewhere.stderr
    everywhere = aggregated.kubectl("get", "crontabs", "-A", user=jane, check=False)
    assert "at the cluster scope" in everywhere.stderr


@pytest.mark.parametrize(("role", "may_create"), [("admin", True), ("edit", True), ("view", False)])
def test_roles_of_the_cluster(aggregated: Cluster, kubectl: Kubectl, namespace: str, role: str, may_create: bool) -> None:
    person = f"with-{role}"
    kubectl("create", "rolebinding", person, f"--clusterrole={role}", f"--user={person}")
    user = aggregated.user(person)
    allowed(aggregated, user, namespace)
    made = aggregated.kubectl("-n", namespace, "create", "-f", "-", input=pages.MY_CRONTAB, user=user, check=False)
    assert (made.returncode == 0) is may_create, made.stderr
    if not may_create:
        assert f'User "{person}" cannot create resource "crontabs" in API group "stable.example.com"' in made.stderr


def allowed(cluster: Cluster, user: Path, namespace: str) -> None:
    """Until the user may list: rights take effect when kube-apiserver has heard of them, and a no may be remembered for 10 s."""

    def listed() -> bool:
        return cluster.kubectl("get", "crontabs", "-n", namespace, user=user, check=False).returncode == 0

    eventually(listed, "the new rights")


# --- what the cluster's own controllers do with our objects


def test_deleted_with_their_namespace(aggregated: Cluster, kubectl: Kubectl, namespace: str) -> None:
    made = create(kubectl)
    kubectl("delete", "namespace", namespace, KUBECTL_LIMIT)
    left = aggregated.get("crontabs", "-A")["items"]
    assert made["metadata"]["uid"] not in [item["metadata"]["uid"] for item in left]
    refused = kubectl("create", "-f", "-", input=pages.MY_CRONTAB, check=False)
    assert refused.stderr == f'Error from server (NotFound): error when creating "STDIN": namespaces "{namespace}" not found\n'


def test_a_terminating_namespace(aggregated: Cluster, kubectl: Kubectl, namespace: str) -> None:
    create(kubectl, pages.MY_CRONTAB.replace("metadata:\n", "metadata:\n  finalizers: [stable.example.com/wait]\n"))
    kubectl("delete", "namespace", namespace, "--wait=false")
    refused = kubectl("create", "-f", "-", input=pages.MY_CRONTAB.replace(NAME, "another"), check=False)
    assert refused.stderr == (
        'Error from server (Forbidden): error when creating "STDIN": crontabs.stable.example.com "another" is forbidden: '
        f"unable to create new content in namespace {namespace} because it is being terminated\n"
    )
    kubectl("wait", "--for=jsonpath={.metadata.deletionTimestamp}", f"crontab/{NAME}", KUBECTL_LIMIT)
    kubectl("patch", "crontab", NAME, "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    kubectl("wait", "--for=delete", f"namespace/{namespace}", KUBECTL_LIMIT)


@pytest.fixture
def owned(kubectl: Kubectl) -> None:
    """A ConfigMap `owned` whose owner is the CronTab."""
    owner = create(kubectl)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "ownerReferences": [{**reference_to(owner), "blockOwnerDeletion": True}]},
    }
    kubectl("create", "-f", "-", input=json.dumps(config))


def reference_to(owner: dict[str, Any]) -> dict[str, Any]:
    metadata = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}


@pytest.mark.usefixtures("owned")
def test_what_a_crontab_owns_goes_with_it(kubectl: Kubectl) -> None:
    kubectl("delete", "crontab", NAME)
    kubectl("wait", "--for=delete", "configmap/owned", KUBECTL_LIMIT)


@pytest.mark.usefixtures("owned")
def test_foreground_deletion(kubectl: Kubectl) -> None:
    kubectl("patch", "configmap", "owned", "--type=merge", "-p", '{"metadata":{"finalizers":["stable.example.com/wait"]}}')
    kubectl("delete", "crontab", NAME, "--cascade=foreground", "--wait=false")
    assert kubectl("get", "crontab", NAME, "-o", "jsonpath={.metadata.finalizers}").stdout == '["foregroundDeletion"]'
    kubectl(
        "wait",
        "--for=jsonpath={.metadata.deletionTimestamp}",
        "configmap/owned",
        KUBECTL_LIMIT,
    )
    kubectl("get", "crontab", NAME)  # as long as what it owns is there, it is too
    kubectl("patch", "configmap", "owned", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=delete", f"crontab/{NAME}", KUBECTL_LIMIT)


@pytest.mark.usefixtures("owned")
def test_orphans(kubectl: Kubectl) -> None:
    kubectl("delete", "crontab", NAME, "--cascade=orphan")
    assert kubectl("get", "configmap", "owned", "-o", "jsonpath={.metadata.ownerReferences}").stdout == ""


def test_a_crontab_goes_with_its_owner(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "owner")
    owner = json.loads(kubectl("get", "configmap", "owner", "-o", "json").stdout)
    references = json.dumps([reference_to(owner)])
    create(kubectl, pages.MY_CRONTAB.replace("metadata:\n", f"metadata:\n  ownerReferences: {references}\n"))
    kubectl("delete", "configmap", "owner")
    kubectl("wait", "--for=delete", f"crontab/{NAME}", KUBECTL_LIMIT)

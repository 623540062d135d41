"""The commands of README.md and docs/ that need a server, a cluster or the control plane, as they stand there.

`tests/test_commands.py` holds the lists here against the pages. What would end the server that other tests have, or put something
in its place, is a dry run: the cluster judges it all the same.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.fenced import REPOSITORY, blocks, printed_by
from tests.integration.server import Standalone, eventually
from tests.shell import Shell

DEV = "make dev"
APPLY = "kubectl apply -f manifests/examples/my-crontab.yaml"
LIST = "kubectl get crontabs"
OF_NAMESPACES = "kubectl get serviceaccounts,configmaps -A -o jsonpath='{.items[*].metadata.name}'"
CHECK = "aggserver storage check --data .data"
BACKUP = "aggserver storage backup --data .data monday.db"
MOVE = "mkdir old; mv .data/aggserver.db* old"
RESTORE = "aggserver storage restore --data .data monday.db"
REMOVE = (
    "kubectl delete --raw"
    " '/apis/stable.example.com/v1/namespaces/default/crontabs/x?ignoreStoreReadErrorWithClusterBreakingPotential=true'"
)
UP = ".venv/bin/python -m tests.controlplane up --kubeconfig /tmp/kubeconfig"
BUILD = "make controlplane"

# docs/conversion.md, on its webhook.
KEYS = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    " -keyout tls.key -out tls.crt"
)
WEBHOOK = "python3 manifests/examples/conversion_webhook.py --certificate tls.crt --key tls.key"
DEFINE = "kubectl apply -f manifests/examples/my-versioned-crontab-with-conversion.yaml"
TRUST = (
    "kubectl patch crd crontabs.example.com --type=merge"
    """ -p '{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"'$(base64 < tls.crt | tr -d '\\n')'"}}}}}'"""
)
CREATE = "kubectl create -f crontab.yaml"
READ = """kubectl get crontabs.v1.example.com local-crontab -o jsonpath='{.host} {.port}{"\\n"}'"""

# docs/admission.md, on `aggserver dev`.
OPERATOR = (
    "aggserver dev -f config/crd/bases -f config/webhook/manifests.yaml --resolve-service system/webhook-service=localhost:9443"
)
POLICY = "kubectl apply -f replicas.yaml"
TOO_MANY = "kubectl create -f many.yaml"

# What controller-gen makes of kubebuilder's markers.
WEBHOOKS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: validating-webhook-configuration
webhooks:
- admissionReviewVersions: [v1]
  clientConfig:
    service:
      name: webhook-service
      namespace: system
      path: /validate-stable-example-com-v1-crontab
  failurePolicy: Fail
  name: vcrontab-v1.kb.io
  rules:
  - apiGroups: [stable.example.com]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [crontabs]
  sideEffects: None
"""

# Command: (what is added to it, what it prints).
ON_A_CLUSTER = {
    "kubectl apply -k manifests": ("--dry-run=server", r"deployment.apps/aggserver \w+ \(server dry run\)"),
    "kubectl get apiservices v1.stable.example.com": ("", r"v1.stable.example.com +aggserver-system/aggserver +True"),
    "kubectl apply --kustomize manifests": ("--dry-run=server", r"deployment.apps/aggserver \w+ \(server dry run\)"),
    "kubectl apply --filename manifests/examples/my-crontab.yaml": ("--dry-run=server", r"my-new-cron-object created"),
    "kubectl get crontab": ("", "No resources found in default namespace."),
    "kubectl delete deployment aggserver --namespace aggserver-system --cascade=foreground": (
        "--dry-run=server",
        r'deployment.apps "aggserver" deleted from aggserver-system namespace \(server dry run\)',
    ),
    "kubectl delete apiservices --selector app.kubernetes.io/managed-by=aggserver": (
        "--dry-run=server",
        r'"v1.stable.example.com" deleted \(server dry run\)',
    ),
    "kubectl delete --kustomize manifests --ignore-not-found": (
        "--dry-run=server",
        r'namespace "aggserver-system" deleted \(server dry run\)',
    ),
}

CONVERTED = [KEYS, WEBHOOK, DEFINE, TRUST, CREATE, READ]

ADMITTED = [OPERATOR, POLICY, TOO_MANY]

RUNS = [*CONVERTED, *ADMITTED, DEV, APPLY, LIST, CHECK, BACKUP, MOVE, RESTORE, REMOVE, UP, BUILD, *ON_A_CLUSTER]


@pytest.fixture
def shell(control_plane: Cluster, tmp_path: Path) -> Shell:
    return Shell(tmp_path, control_plane.program.parent)


def test_from_the_first_command_to_a_restore(shell: Shell) -> None:
    """README.md's beginning, with the pages on what is kept; all on one folder."""
    dev = f"{shell.recipe('dev')} --secure-port 0"  # the port of the page may be taken
    with shell.running(dev, "aggserver serves https://127.0.0.1:") as line:
        assert line.endswith(f" (data: .data). Next: export KUBECONFIG={shell.folder}/.data/kubeconfig; kubectl api-resources\n")
        shell.variables["KUBECONFIG"] = f"{shell.folder}/.data/kubeconfig"
        assert "crontabs" in shell.run("kubectl api-resources")
        assert shell.run(APPLY) == "crontab.stable.example.com/my-new-cron-object created\n"
        assert "my-new-cron-object" in shell.run(LIST)
        # Controllers write these in their own time, and the page counts them.
        eventually(lambda: shell.run(OF_NAMESPACES).count(" ") == 7, "the ServiceAccounts and ConfigMaps of the namespaces")
        assert shell.run(CHECK) == printed_by(CHECK)
        assert shell.run(BACKUP) == printed_by(BACKUP)
    assert shell.run(MOVE) == printed_by(MOVE)
    assert shell.run(RESTORE) == printed_by(RESTORE)
    asyncio.run(_put_what_nobody_can_read(shell.folder / ".data"))
    with shell.running(dev, "aggserver serves"):
        assert '"status":"Success"' in shell.run(REMOVE)
        assert "my-new-cron-object" in shell.run(LIST)


def test_a_conversion_webhook(shell: Shell, standalone: Standalone) -> None:
    shell.variables["KUBECONFIG"] = str(standalone.kubeconfig)
    [crontab] = [block.text for block in blocks() if block.text.startswith("# crontab.yaml\n")]
    (shell.folder / "crontab.yaml").write_text(crontab)
    shell.run(KEYS)
    with shell.running(f"{WEBHOOK} --port 0", "conversions are at ") as line:  # the port of the page may be taken
        port = line.rpartition(":")[2].partition("/")[0]
        assert shell.run(DEFINE) == printed_by(DEFINE)
        shell.run("kubectl wait --for=condition=Established crd/crontabs.example.com")
        assert shell.run(TRUST) == printed_by(TRUST)
        url = f"https://localhost:{port}/crdconvert"
        patch = json.dumps({"spec": {"conversion": {"webhook": {"clientConfig": {"url": url}}}}})
        shell.run(f"kubectl patch crd crontabs.example.com --type=merge -p '{patch}'")
        assert shell.run(CREATE) == printed_by(CREATE)
        assert shell.run(READ) == printed_by(READ)
    shell.run("kubectl delete crd crontabs.example.com")


def test_admission_without_a_cluster(shell: Shell) -> None:
    files = {block.text.partition("\n")[0].removeprefix("# "): block.text for block in blocks() if block.page == "admission.md"}
    for name in ("replicas.yaml", "many.yaml"):
        (shell.folder / name).write_text(files[name])
    definitions, webhooks = shell.folder / "config/crd/bases", shell.folder / "config/webhook"
    definitions.mkdir(parents=True)
    webhooks.mkdir()
    (definitions / "crontabs.yaml").symlink_to(REPOSITORY / "manifests/examples/crontab.yaml")
    (webhooks / "manifests.yaml").write_text(WEBHOOKS)
    with shell.running(f"{OPERATOR} --data .data --secure-port 0", "aggserver serves"):
        shell.variables["KUBECONFIG"] = f"{shell.folder}/.data/kubeconfig"
        assert shell.run(POLICY) == printed_by(POLICY)
        assert shell.run(f"{TOO_MANY} || true") == printed_by(TOO_MANY)
        assert 'failed calling webhook "vcrontab-v1.kb.io"' in shell.run(f"{APPLY} || true")


async def _put_what_nobody_can_read(folder: Path) -> None:
    storage = SQLiteStorage(folder / FILE_NAME)
    await storage.start()
    await storage.create("/stable.example.com/crontabs/default/x", b"this is no JSON")
    await storage.close()


@pytest.mark.parametrize("command", ON_A_CLUSTER)
def test_on_a_cluster(command: str, own_control_plane: ControlPlane, aggregated: Cluster, shell: Shell) -> None:
    """Of our own: on another, these commands would replace and remove the server that is there."""
    more, printed = ON_A_CLUSTER[command]
    shell.variables["KUBECONFIG"] = str(aggregated.kubeconfig)
    assert re.search(printed, shell.run(f"{command} {more}"))


def test_a_control_plane_for_yourself(shell: Shell, own_control_plane: ControlPlane) -> None:
    build = shell.run(shell.recipe("controlplane"))
    assert Path(build.splitlines()[-1], "kube-apiserver").exists()
    kubeconfig = shell.folder / "kubeconfig"
    with shell.running(UP.replace("/tmp/kubeconfig", str(kubeconfig)), "interrupt to end it"):
        shell.variables["KUBECONFIG"] = str(kubeconfig)
        assert shell.run("kubectl get --raw /readyz") == "ok"

"""manifests/helm: what it renders is what kustomize makes of manifests/, and helm installs it on a real control plane.

No pod runs there, so that the objects are all that is judged; `make kind` runs the manifests that they are equal to.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import aggserver
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.helm import program
from tests.integration.server import eventually

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "helm"
NAMESPACE = "aggserver-system"
KEEP = "helm.sh/resource-policy"

Objects = dict[tuple[str, str, str], Any]


@pytest.fixture(scope="module")
def helm() -> Path:
    return program.build(os.environ, print)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """One without the manifests, which other tests have on theirs, under the same names."""
    with ControlPlane(obtain(os.environ, print)) as plane:
        yield plane


@pytest.fixture
def rendered(helm: Path, tmp_path: Path) -> Iterator[Any]:
    def render(*settings: str, namespace: str = NAMESPACE) -> Objects:
        return named(program.run(helm, tmp_path, "template", "aggserver", str(CHART), "--namespace", namespace, *settings))

    return render


def named(text: str) -> Objects:
    """The objects of YAML documents, by kind, namespace and name; lists that Kubernetes takes for sets or maps are sorted."""
    found: Objects = {}
    for item in yaml.safe_load_all(text):
        if item is None:
            continue
        metadata = item["metadata"]
        key = (item["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found
        found[key] = item
        if metadata.get("annotations", {}).pop(KEEP, None) is not None and not metadata["annotations"]:
            del metadata["annotations"]
        if item["kind"] == "Deployment":
            pod = item["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            container["args"].sort()
            for entries in (container["env"], container["volumeMounts"], pod["volumes"]):
                entries.sort(key=lambda entry: entry["name"])
    return found


def kustomized(plane: ControlPlane, folder: Path, *components: str) -> Objects:
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS, folder)],
        "components": [os.path.relpath(MANIFESTS / component, folder) for component in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return named(plane.kubectl("kustomize", str(folder)).stdout)


# Components of kustomize, and the values that stand for them.
SETTINGS = {
    "replicas": "etcd.enabled=true",
    "own-certificates": "ownCertificates.enabled=true",
    "adoption": "adoption.enabled=true",
    "backup": "backup.enabled=true",
    "monitoring": "monitoring.enabled=true",
}
CHOICES = [
    (),
    *((name,) for name in SETTINGS),
    ("replicas", "own-certificates", "adoption"),
    ("own-certificates", "adoption", "backup", "monitoring"),
]


@pytest.mark.parametrize("components", CHOICES, ids=lambda components: ", ".join(components) or "none")
def test_the_chart_renders_to_what_kustomize_makes(
    components: tuple[str, ...], plane: ControlPlane, rendered: Any, tmp_path: Path
) -> None:
    expected = kustomized(plane, tmp_path, *components)
    settings = [word for component in components for word in ("--set", SETTINGS[component])]
    assert rendered("--set", "namespace.create=true", *settings) == expected
    namespace = ("Namespace", "", NAMESPACE)
    assert namespace in expected
    assert rendered(*settings) == {key: item for key, item in expected.items() if key != namespace}


def test_no_pod_of_them_is_less_confined_than_the_namespace_demands(plane: ControlPlane, tmp_path: Path) -> None:
    """kube-apiserver warns about a template whose Pods it would refuse."""
    objects = kustomized(plane, tmp_path, "adoption", "backup")
    manifests = "\n---\n".join(map(json.dumps, objects.values()))
    assert "Warning" not in plane.kubectl("apply", "-f", "-", input=manifests).stderr
    job = objects["CronJob", NAMESPACE, "aggserver-backup"]
    del job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["securityContext"]
    assert "would violate PodSecurity" in plane.kubectl("apply", "-f", "-", input=json.dumps(job)).stderr
    plane.kubectl("delete", "-f", "-", input=manifests)


def test_each_component_has_a_value() -> None:
    """A component that comes later has one, or stands here with the reason why not."""
    components = {path.parent.name for path in MANIFESTS.glob("*/kustomization.yaml")}
    assert components == set(SETTINGS)


def test_all_objects_are_in_the_namespace_of_the_release(rendered: Any) -> None:
    for more in ((), ("--set", "adoption.enabled=true,etcd.enabled=true,ownCertificates.enabled=true,monitoring.enabled=true")):
        objects = rendered(*more, namespace="elsewhere")
        assert NAMESPACE not in json.dumps(list(objects.values()))
        assert {namespace for _, namespace, _ in objects} <= {"elsewhere", "", "kube-system", "default"}


VALUES = """
image: {repository: registry.example.com/aggserver, tag: "9", pullPolicy: Always, pullSecrets: [{name: pull}]}
definitions: {widgets.yaml: "kind: CustomResourceDefinition"}
users: [{name: widgets, group: widgets.example.com, resources: [widgets, gadgets]}]
apiGroups: [widgets.example.com]
storage: {size: 20Gi, className: fast}
networkPolicy: {from: [{ipBlock: {cidr: 192.0.2.0/28}}]}
resources: {requests: {cpu: "1", memory: 4Gi}, limits: {memory: 8Gi}}
extraArgs: ["--v=4", "--max-requests-inflight=800"]
podAnnotations: {a: b}
priorityClassName: system-cluster-critical
nodeSelector: {disk: ssd}
affinity: {nodeAffinity: {}}
tolerations: [{operator: Exists}]
"""


def test_values_are_heeded(rendered: Any, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(VALUES)
    objects = rendered("--values", str(values))
    template = objects["Deployment", NAMESPACE, "aggserver"]["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    given = yaml.safe_load(VALUES)
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example.com/aggserver:9", "Always")
    assert {"--v=4", "--max-requests-inflight=800"} <= set(container["args"])
    assert container["resources"] == given["resources"]
    assert (pod["imagePullSecrets"], template["metadata"]["annotations"]["a"]) == ([{"name": "pull"}], "b")
    for name in ("priorityClassName", "nodeSelector", "affinity", "tolerations"):
        assert pod[name] == given[name]
    assert objects["ConfigMap", NAMESPACE, "aggserver-definitions"]["data"] == given["definitions"]
    claim = objects["PersistentVolumeClaim", NAMESPACE, "aggserver-data"]["spec"]
    assert (claim["storageClassName"], claim["resources"]) == ("fast", {"requests": {"storage": "20Gi"}})
    (rule,) = objects["NetworkPolicy", NAMESPACE, "aggserver"]["spec"]["ingress"]
    assert rule["from"] == given["networkPolicy"]["from"]
    policy = objects["ValidatingAdmissionPolicy", "", "aggserver-api-services"]["spec"]
    expressions = [each["expression"] for each in policy["validations"]]
    assert 'variables.states.all(state, state.spec.group in ["widgets.example.com"])' in expressions
    for level in ("edit", "view"):
        (rights,) = objects["ClusterRole", "", f"aggserver:widgets-{level}"]["rules"]
        assert (rights["apiGroups"], rights["resources"]) == (["widgets.example.com"], ["widgets", "gadgets"])
    assert ("ClusterRole", "", "aggserver:crontabs-edit") not in objects
    others = rendered("--set", "existingDefinitions=mine,storage.existingClaim=own,networkPolicy.enabled=false")
    volumes = {each["name"]: each for each in others["Deployment", NAMESPACE, "aggserver"]["spec"]["template"]["spec"]["volumes"]}
    assert volumes["definitions"]["configMap"] == {"name": "mine"}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "own"}
    assert {kind for kind, *_ in others} & {"PersistentVolumeClaim", "NetworkPolicy", "ConfigMap"} == set()


WRONG = {
    "a value that there is not": ("etcd.servers=x", "additional properties 'servers' not allowed"),
    "a size that is none": ("storage.size=much", "storage/size"),
    "a flag without dashes": ("extraArgs={v=4}", "extraArgs/0"),
    "backups of etcd": ("backup.enabled=true,etcd.enabled=true", "take snapshots of etcd"),
    "no servers": ("etcd.replicas=0", "etcd/replicas"),
}


@pytest.mark.parametrize(("setting", "told"), WRONG.values(), ids=WRONG.keys())
def test_wrong_values_are_refused(setting: str, told: str, rendered: Any) -> None:
    with pytest.raises(program.HelmError, match=re.escape(told)):
        rendered("--set", setting)


def test_the_chart_is_of_this_version_and_has_no_faults(helm: Path, tmp_path: Path) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == aggserver.__version__
    assert (CHART / "files" / "crontab.yaml").read_bytes() == (MANIFESTS / "examples" / "crontab.yaml").read_bytes()
    copied = {path.name: path.read_bytes() for path in (CHART / "files" / "monitoring").iterdir()}
    there = {path.name: path.read_bytes() for path in (MANIFESTS / "monitoring").iterdir()}
    assert there.pop("kustomization.yaml")
    assert copied == there, "cp manifests/monitoring/[!k]* manifests/helm/files/monitoring"
    assert "0 chart(s) failed" in program.run(helm, tmp_path, "lint", "--strict", str(CHART))


def test_helm_installs_upgrades_and_removes_it(plane: ControlPlane, helm: Path, rendered: Any, tmp_path: Path) -> None:
    """In a namespace that it makes, and with other values; the claim stays, and all else goes."""
    namespace = "helm-installs"
    place = ("--namespace", namespace, "--kubeconfig", str(plane.kubeconfig))

    def there(objects: Objects) -> set[tuple[str, str, str]]:
        manifests = "\n---\n".join(map(json.dumps, objects.values()))
        told = plane.kubectl("get", "-f", "-", "--ignore-not-found", "-o", "json", input=manifests).stdout
        items = json.loads(told)["items"] if told else []
        return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in items}

    def installed() -> list[tuple[str, str]]:
        listed = json.loads(program.run(helm, tmp_path, "list", *place, "-o", "json"))
        return [(each["name"], each["revision"]) for each in listed]

    objects = rendered(namespace=namespace)
    program.run(helm, tmp_path, "install", "aggserver", str(CHART), *place, "--create-namespace")
    try:
        assert installed() == [("aggserver", "1")]
        assert there(objects) == set(objects)
        adopting = ("--set", "adoption.enabled=true,backup.enabled=true,apiGroups={stable.example.com}")
        program.run(helm, tmp_path, "upgrade", "aggserver", str(CHART), *place, *adopting)
        more = rendered(*adopting, namespace=namespace)
        assert there(more) == set(more) > set(objects)
    finally:
        program.run(helm, tmp_path, "uninstall", "aggserver", *place)
    claim = ("PersistentVolumeClaim", namespace, "aggserver-data")
    eventually(lambda: there(more) == {claim}, "all goes but the claim")

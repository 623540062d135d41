"""kubectl's writes on kube-apiserver and on aggserver: what it prints, and who owns which field afterwards."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.comparison import comparable
from tests.integration.server import Standalone, eventually
from tests.waiting import KUBECTL_LIMIT

GROUP = "owned.example.com"
DEFINITION = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: rafts.{GROUP}}}
spec:
  group: {GROUP}
  scope: Namespaced
  names: {{plural: rafts, singular: raft, kind: Raft}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {{}}
      scale: {{specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              image: {{type: string, default: none}}
              replicas: {{type: integer}}
              cards:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {{type: object, required: [name], properties: {{name: {{type: string}}, port: {{type: integer}}}}}}
              pairs: {{type: object, additionalProperties: {{type: string}}}}
          status: {{type: object, properties: {{replicas: {{type: integer}}, phase: {{type: string}}}}}}
"""


def raft(spec: str, **labels: str) -> str:
    """spec: in YAML's flow style. `$name` is the name of the scenario."""
    metadata = json.dumps({"name": "$name", "namespace": "default", **({"labels": labels} if labels else {})})
    return f"apiVersion: {GROUP}/v1\nkind: Raft\nmetadata: {metadata}\nspec: {spec}\n"


@dataclass(frozen=True)
class Step:
    """One command. given: its standard input. editor: what `kubectl edit` runs."""

    arguments: Sequence[str]
    given: str = ""
    editor: str = ""


def run(text: str, given: str = "", editor: str = "") -> Step:
    """text: the command, split at spaces, without `kubectl`."""
    return Step(text.split(), given, editor)


ONE, TWO = raft("{image: a, replicas: 1}"), raft("{image: b, replicas: 1}")
CARDS = raft("{cards: [{name: x, port: 1}], pairs: {a: b}}", app="one")

SCENARIOS: dict[str, Sequence[Step]] = {
    "server-side": [
        run("apply --server-side -f -", ONE),
        run("apply --server-side -f -", ONE),
        run("apply --server-side -f -", TWO),
        run("apply --server-side -f - -o yaml --show-managed-fields", TWO),
        run("get raft $name -o yaml"),
        run("get raft $name -o yaml --show-managed-fields"),
        run("get raft $name -o json --show-managed-fields"),
    ],
    "conflict": [
        run("apply --server-side --field-manager=other -f -", ONE),
        run("apply --server-side -f -", TWO),
        run("apply --server-side --force-conflicts -f -", TWO),
        run("apply --server-side --field-manager=other -f -", raft("{image: b, replicas: 2}")),
        run("apply --server-side --field-manager=other -f -", raft("{replicas: 2, image: c}")),
    ],
    "diff": [
        run("diff --server-side -f -", ONE),
        run("apply --server-side -f -", ONE),
        run("diff --server-side -f -", ONE),
        run("diff --server-side -f -", TWO),
        run("diff --server-side --field-manager=other -f -", TWO),
        run("diff --server-side --force-conflicts --field-manager=other -f -", TWO),
        run("diff -f -", TWO),
        run("diff --server-side --show-managed-fields --field-manager=other -f -", ONE),
    ],
    "migration": [
        run("apply -f -", ONE),
        run("apply --server-side -f -", TWO),
        run("get raft $name -o yaml"),
        run("apply --server-side -f -", raft("{replicas: 1}")),
        run("apply -f -", raft("{replicas: 3}")),
        run("apply --server-side -f -", raft("{replicas: 4}")),
    ],
    "migration-after-others": [
        run("apply -f -", ONE),
        run("label raft $name a=b"),
        run("scale raft $name --replicas=5"),
        run("apply --server-side -f -", TWO),
        run("apply --server-side --force-conflicts -f -", TWO),
    ],
    "migration-with-another-name": [
        run("apply -f -", ONE),
        run("apply --server-side --field-manager=mine -f -", ONE),
        run("apply --server-side --field-manager=mine -f -", TWO),
    ],
    "client-side": [
        run("apply -f -", CARDS),
        run("apply -f -", CARDS),
        run("apply -f -", raft("{cards: [{name: v}]}", app="two")),
        run("apply view-last-applied raft/$name"),
        run("apply set-last-applied -f -", raft("{cards: [{name: z}]}")),
        run("apply edit-last-applied raft/$name", editor="sed -i 's/name: z/name: w/'"),
    ],
    "edit": [
        run("apply --server-side -f -", ONE),
        run("edit raft $name", editor="sed -i 's/image: a/image: c/'"),
        run("edit raft $name", editor="true"),
        run("edit raft $name --subresource=status", editor="sed -i '$a status: {phase: x}'"),
        run("apply --server-side -f -", ONE),
    ],
    "others": [
        run("create -f -", CARDS),
        run("replace -f -", raft("{cards: [{name: x, port: 2}, {name: v}]}")),
        run('patch raft $name --type=merge -p {"spec":{"replicas":2}}'),
        run('patch raft $name --type=json -p [{"op":"add","path":"/spec/image","value":"z"}]'),
        run('patch raft $name --subresource=status --type=merge -p {"status":{"phase":"x"}}'),
        run("label raft $name c=d"),
        run("label raft $name c-"),
        run("annotate raft $name e=f"),
        run("scale raft $name --replicas=4"),
        run("scale raft $name --replicas=5 --current-replicas=3"),
        run('patch raft $name --subresource=scale --type=merge -p {"spec":{"replicas":7}}'),
        run("replace --force -f -", ONE),
    ],
    "named-managers": [
        run("create --field-manager=a -f -", ONE),
        run("label --field-manager=b raft $name c=d"),
        run("apply --field-manager=c -f -", TWO),
        run("scale raft $name --replicas=4"),
        run("apply --server-side --field-manager=d -f -", raft("{pairs: {a: b}}")),
    ],
    "dry-run": [
        run("apply --server-side --dry-run=server -f -", ONE),
        run("apply --server-side -f -", ONE),
        run("apply --server-side --dry-run=server -f -", TWO),
        run("apply --server-side --dry-run=server -o yaml --field-manager=other -f -", TWO),
        run("apply --dry-run=server -f -", TWO),
    ],
    "wrong": [
        run("apply --server-side -f -", raft("{image: 1}")),
        run("apply --server-side -f -", raft("{nothing: 1}")),
        run("apply --server-side --validate=false -f -", raft("{nothing: 1}")),
        run("apply --server-side --validate=ignore -f -", raft("{image: a}") + "  # twice\nspec: {image: b}\n"),
        run("apply --server-side -f -", raft("{cards: [{name: a}, {name: a}]}")),
        run("apply --server-side -f -", raft("{cards: [{port: 1}]}")),
    ],
    "status": [
        run("apply --server-side -f -", ONE),
        run("apply --server-side --subresource=status --field-manager=st -f -", raft("{}") + "status: {phase: x}\n"),
        run("apply --server-side --subresource=status --field-manager=su -f -", raft("{}") + "status: {phase: v}\n"),
    ],
    "several": [
        run(
            "apply --server-side -f -",
            f"{ONE}---\n{ONE.replace('$name', '$name-2')}---\n{raft('{image: 1}').replace('$name', '$name-3')}",
        ),
    ],
}
# Of a name of its own, since kubectl finds resources by it.
OTHER = DEFINITION.replace(GROUP, "$name.example.com").replace("raft", "punt").replace("Raft", "Punt")
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: $name, labels: {a: b}}\n"

OWN_KINDS: dict[str, Sequence[Step]] = {
    "namespace": [
        run("apply --server-side -f -", NAMESPACE),
        run("label namespace $name a=c --overwrite"),
        run("apply --server-side -f -", NAMESPACE),
        run("apply --server-side --force-conflicts -f -", NAMESPACE),
        run("diff --server-side -f -", NAMESPACE.replace("a: b", "a: c")),
    ],
    "definition": [
        run("apply --server-side -f -", OTHER),
        run("wait --for=condition=Established crd punts.$name.example.com"),
        run("apply --server-side -f -", OTHER),
        run("apply --server-side --field-manager=other -f -", OTHER),
        run("apply --server-side --field-manager=other -f -", OTHER.replace("kind: Punt", "kind: Punted")),
        run("annotate crd punts.$name.example.com a=b"),
    ],
    "definition-migrated": [
        run("apply -f -", OTHER),
        run("wait --for=condition=Established crd punts.$name.example.com"),
        run("apply --server-side -f -", OTHER.replace("default: none", "default: some")),
    ],
}

# What differs from run to run in what kubectl prints: its files, ages, revisions in YAML.
_CHANCE = (
    (re.compile(r"/tmp/(LIVE|MERGED)-\d+"), r"/tmp/\1"),
    (re.compile(r"(?m)^((?:diff .*|---|\+\+\+) .*?)\t.*$"), r"\1"),
    (re.compile(r"(resourceVersion: )\"\d+\""), r"\1<revision>"),
    (re.compile(r"(?m)^W\d{4} \S+ +\d+ "), "W "),
    (re.compile(r"kubectl-edit-\d+\.yaml"), "kubectl-edit.yaml"),
)


@dataclass(frozen=True)
class Side:
    cluster: Cluster
    kubeconfig: Path

    def kubectl(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.cluster.kubectl(*arguments, user=self.kubeconfig, **more)

    def explains(self) -> bool:
        return "pairs" in self.kubectl("explain", "rafts.spec", check=False).stdout


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, standalone: Standalone) -> Iterator[tuple[Side, Side]]:
    pair = (Side(control_plane, control_plane.kubeconfig), Side(control_plane, standalone.kubeconfig))
    for side in pair:
        side.kubectl("create", "-f", "-", input=DEFINITION)
        side.kubectl("wait", "--for=condition=Established", f"crd/rafts.{GROUP}", KUBECTL_LIMIT)
        # Each publishes the schema, by which kubectl validates, in its own time.
        eventually(side.explains, "the schema is published")
    yield pair
    pair[0].kubectl("delete", "crd", f"rafts.{GROUP}", "--wait=false")


def _played(side: Side, name: str, steps: Sequence[Step], shown: str) -> list[Any]:
    """Of each step: exit code, what was printed, and the managedFields that then are there."""
    seen: list[Any] = []
    for step in steps:
        arguments = [argument.replace("$name", name) for argument in step.arguments]
        environment = {"KUBE_EDITOR": step.editor, "TMPDIR": "/tmp"}
        done = side.kubectl(*arguments, input=step.given.replace("$name", name), check=False, environment=environment)
        seen.append((" ".join(step.arguments), done.returncode, _settled(done.stdout), _settled(done.stderr)))
        left = side.kubectl("get", *shown.replace("$name", name).split(), "-o", "json", "--show-managed-fields", check=False)
        if not left.returncode:
            found = comparable(json.loads(left.stdout))
            entries = found["metadata"].get("managedFields", [])
            # The controllers of definitions write in their own time.
            found["metadata"]["managedFields"] = [entry for entry in entries if entry["manager"] != "<controller>"]
            if found["kind"] != "Raft":
                found.pop("status", None)
            seen.append(found)
    return seen


def _settled(text: str) -> Any:
    for pattern, replacement in _CHANCE:
        text = pattern.sub(replacement, text)
    with suppress(ValueError):
        return comparable(json.loads(text))
    return comparable(text)


def _compare(sides: tuple[Side, Side], name: str, steps: Sequence[Step], shown: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        upstream, ours = pool.map(lambda side: _played(side, name, steps, shown), sides)
    assert ours == upstream


@pytest.mark.parametrize("name", SCENARIOS)
def test_same_as_kubectl_does_to_a_custom_resource(sides: tuple[Side, Side], name: str) -> None:
    _compare(sides, name, SCENARIOS[name], "raft $name")


@pytest.mark.parametrize("name", OWN_KINDS)
def test_same_as_kubectl_does_to_own_kinds(sides: tuple[Side, Side], name: str) -> None:
    shown = "namespace $name" if name == "namespace" else "crd punts.$name.example.com"
    try:
        _compare(sides, name, OWN_KINDS[name], shown)
    finally:
        for side in sides:
            side.kubectl("delete", *shown.replace("$name", name).split(), "--wait=false", "--ignore-not-found")

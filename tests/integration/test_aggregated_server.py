"""The server behind the aggregation layer as its operator meets it: restarts, APIServices, live definitions, its rights."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration import pages
from tests.integration.aggregation import API_SERVICE, EXAMPLE, Aggregation, wait_until_served
from tests.integration.server import eventually
from tests.integration.watching import watching

NAME = "my-new-cron-object"
VERSION_TWO = "v2.stable.example.com"


def kubectl(aggregation: Aggregation, namespace: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return aggregation.plane.kubectl("-n", namespace, *arguments, **more)


def resources(aggregation: Aggregation, group_version: str) -> set[str]:
    """What the server says it serves; empty while it can't be asked."""
    done = aggregation.plane.kubectl("get", "--raw", f"/apis/{group_version}", check=False)
    return set() if done.returncode else {found["name"] for found in json.loads(done.stdout)["resources"]}


def served(aggregation: Aggregation, group_version: str, name: str) -> None:
    eventually(lambda: name in resources(aggregation, group_version), f"{name} of {group_version}")
    aggregation.plane.kubectl("api-resources", "--cached=false")  # kubectl remembers what it once discovered


# --- restarts


def test_a_restart(aggregation: Aggregation, namespace: str) -> None:
    aggregation.plane.kubectl("create", "-n", namespace, "-f", "-", input=pages.MY_CRONTAB)
    before = aggregation.plane.get("crontab", NAME, "-n", namespace)
    with watching(aggregation.plane, namespace) as watch, aggregation.stopped():
        # Ended in order: of a watch that was broken off client-go complains.
        assert watch.end() == (0, "")
        down = aggregation.plane.kubectl("get", "crontabs", "-n", namespace, check=False)
        assert down.returncode == 1
    after = eventually(lambda: aggregation.plane.get("crontabs", "-n", namespace)["items"], "the objects are back")
    assert before in after
    another = pages.MY_CRONTAB.replace(NAME, "another")
    made = json.loads(kubectl(aggregation, namespace, "create", "-f", "-", "-o", "json", input=another).stdout)
    assert int(made["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


def test_a_watch_goes_on_after_a_restart(aggregation: Aggregation, namespace: str) -> None:
    """A controller's watch, which names the last resourceVersion it saw, misses nothing."""
    kubectl(aggregation, namespace, "create", "-f", "-", input=pages.MY_CRONTAB)
    raw = f"/apis/stable.example.com/v1/namespaces/{namespace}/crontabs"
    version = json.loads(aggregation.plane.kubectl("get", "--raw", raw).stdout)["metadata"]["resourceVersion"]
    kubectl(aggregation, namespace, "label", "crontab", NAME, "before=restart")
    with aggregation.stopped():
        pass
    kubectl(aggregation, namespace, "label", "crontab", NAME, "after=restart")
    watched = aggregation.plane.kubectl("get", "--raw", f"{raw}?watch=true&resourceVersion={version}&timeoutSeconds=1")
    labels = [json.loads(line)["object"]["metadata"]["labels"] for line in watched.stdout.splitlines()]
    assert labels == [{"before": "restart"}, {"before": "restart", "after": "restart"}]


# --- APIServices


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"caBundle": "bm8gQ0E="}, id="its-ca"),
        pytest.param({"caBundle": None, "insecureSkipTLSVerify": True}, id="no-verification"),
        pytest.param({"versionPriority": 7, "groupPriorityMinimum": 17}, id="its-priorities"),
        pytest.param({"service": {"port": 1}}, id="its-port"),
    ],
)
def test_an_api_service_is_mended(aggregation: Aggregation, patch: dict[str, Any]) -> None:
    before = aggregation.api_services()[API_SERVICE]["spec"]
    text = json.dumps({"spec": patch})
    aggregation.plane.kubectl("patch", "apiservice", API_SERVICE, "--type=merge", "-p", text)
    eventually(lambda: aggregation.api_services()[API_SERVICE]["spec"] == before, "the APIService is as it was")
    wait_until_served(aggregation.plane)


def test_an_api_service_comes_back(aggregation: Aggregation) -> None:
    uid = aggregation.api_services()[API_SERVICE]["metadata"]["uid"]
    aggregation.plane.kubectl("delete", "apiservice", API_SERVICE)
    found = eventually(lambda: aggregation.api_services().get(API_SERVICE), "the APIService is made again")
    assert found["metadata"]["uid"] != uid
    wait_until_served(aggregation.plane)


# --- definitions


def test_scale_is_added_live(aggregation: Aggregation, namespace: str) -> None:
    kubectl(aggregation, namespace, "create", "-f", "-", input=pages.MY_CRONTAB_WITH_REPLICAS)
    refused = kubectl(aggregation, namespace, "scale", "--replicas=5", f"crontabs/{NAME}", check=False)
    assert refused.stderr == f'Error from server (NotFound): crontabs.stable.example.com "{NAME}" not found\n'
    with aggregation.definition(EXAMPLE.name, pages.WITH_SUBRESOURCES):
        served(aggregation, "stable.example.com/v1", "crontabs/scale")
        scaled = kubectl(aggregation, namespace, "scale", "--replicas=5", f"crontabs/{NAME}").stdout
        assert scaled == f"crontab.stable.example.com/{NAME} scaled\n"
        assert kubectl(aggregation, namespace, "get", "ct", NAME, "-o", "jsonpath={.spec.replicas}").stdout == "5"
        kubectl(
            aggregation,
            namespace,
            "patch",
            "crontab",
            NAME,
            "--subresource=status",
            "--type=merge",
            "-p",
            '{"status":{"replicas":4}}',
        )
        shown = kubectl(
            aggregation, namespace, "get", "ct", NAME, "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.replicas}"
        )
        assert shown.stdout == "5 4"


def test_a_definition_comes_and_goes(aggregation: Aggregation, namespace: str) -> None:
    shirts = pages.SHIRTS.replace("stable.example.com", "shop.example.com")
    with aggregation.definition("more/shirts.yaml", shirts):
        served(aggregation, "shop.example.com/v1", "shirts")
        assert "v1.shop.example.com" in aggregation.api_services()
        resources = pages.SHIRT_RESOURCES.replace("stable.example.com", "shop.example.com")
        kubectl(aggregation, namespace, "create", "-f", "-", input=resources)
        blue = kubectl(aggregation, namespace, "get", "shirts", "--field-selector", "spec.color=blue", "-o", "name").stdout
        assert blue == "shirt.shop.example.com/example1\nshirt.shop.example.com/example2\n"
    eventually(lambda: "v1.shop.example.com" not in aggregation.api_services(), "the APIService is removed")
    gone = eventually(lambda: kubectl(aggregation, namespace, "get", "shirts", check=False).stderr, "shirts are gone")
    assert 'the server doesn\'t have a resource type "shirts"' in gone or "could not find the requested resource" in gone
    assert kubectl(aggregation, namespace, "get", "crontabs").returncode == 0
    # Nothing was lost with it.
    with aggregation.definition("shirts.yaml", shirts):
        served(aggregation, "shop.example.com/v1", "shirts")
        assert len(kubectl(aggregation, namespace, "get", "shirts", "-o", "name").stdout.split()) == 3


def test_a_second_version(aggregation: Aggregation, namespace: str) -> None:
    kubectl(aggregation, namespace, "create", "-f", "-", input=pages.MY_CRONTAB)
    with aggregation.definition(EXAMPLE.name, with_second_version(EXAMPLE.read_text())):
        served(aggregation, "stable.example.com/v2", "crontabs")
        priorities = {name: found["spec"]["versionPriority"] for name, found in aggregation.api_services().items()}
        assert priorities == {VERSION_TWO: 100, API_SERVICE: 99}
        shown = kubectl(aggregation, namespace, "get", "crontabs.v2.stable.example.com", NAME, "-o", "json").stdout
        assert json.loads(shown)["apiVersion"] == "stable.example.com/v2"
        # Without a version, the preferred one.
        preferred = eventually(
            lambda: kubectl(aggregation, namespace, "get", "crontab", NAME, "-o", "jsonpath={.apiVersion}").stdout, "kubectl get"
        )
        assert preferred == "stable.example.com/v2"
    eventually(lambda: VERSION_TWO not in aggregation.api_services(), "the APIService is removed")
    assert aggregation.api_services()[API_SERVICE]["spec"]["versionPriority"] == 100
    aggregation.plane.kubectl("api-resources", "--cached=false")


def with_second_version(definition: str) -> str:
    """The definition with a version v2 like its only one."""
    begin, end = definition.index("    - name: v1\n"), definition.index("  # either Namespaced or Cluster\n")
    second = definition[begin:end].replace("name: v1", "name: v2").replace("storage: true", "storage: false")
    return definition[:end] + second + definition[end:]


@pytest.fixture(scope="module")
def shop(aggregation: Aggregation) -> Iterator[None]:
    """Another definition, beside which things break."""
    with aggregation.definition("shop.yaml", pages.SHIRTS.replace("stable.example.com", "shop.example.com")):
        served(aggregation, "shop.example.com/v1", "shirts")
        yield


INVALID = r"\(crontabs\.stable\.example\.com\): metadata\.name: Invalid value: .*must be spec\.names\.plural"
MISSPELT = r"\(crontabs\.stable\.example\.com\): is a CustomResource of apiextensions\.k8s\.io/v1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(EXAMPLE.read_text().replace("plural: crontabs", "plural: other"), INVALID, id="invalid"),
        pytest.param("kind: [", "yaml: line 1: did not find expected node content", id="not-yaml"),
        pytest.param(
            EXAMPLE.read_text().replace("kind: CustomResourceDefinition", "kind: CustomResource"), MISSPELT, id="misspelt"
        ),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_broken_definition(aggregation: Aggregation, namespace: str, text: str, complaint: str) -> None:
    """The log says which file and what of it; what it defined is served on, as is what is right beside it."""
    said = len(aggregation.log)
    with aggregation.definition(EXAMPLE.name, text):
        line = rf"ERROR .*definitions: crontab\.yaml, document 1:? {complaint}"
        eventually(lambda: re.search(line, aggregation.log[said:]), "the log tells of it")
        kubectl(aggregation, namespace, "create", "-f", "-", input=pages.MY_CRONTAB)
        assert set(aggregation.api_services()) == {API_SERVICE, "v1.shop.example.com"}
        assert "shirts" in resources(aggregation, "shop.example.com/v1")
    assert kubectl(aggregation, namespace, "get", "crontab", NAME).returncode == 0


# --- its rights


def test_the_service_account_has_the_rights_it_needs(aggregation: Aggregation) -> None:
    """Last, over all that the tests before made the server do."""
    log = aggregation.log
    refused = [line for line in log.splitlines() if "is forbidden" in line]
    # test_admission_rules.py withholds the rights on params for a while, which the manifests do not grant.
    assert [line for line in refused if not re.search(r"watch of (ConfigMap|CronTab\.stable\.example\.com) failed", line)] == []
    assert "Traceback" not in log

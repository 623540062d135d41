"""The page "Versions in CustomResourceDefinitions", with the real kubectl, at kube-apiserver, standalone, and aggregated."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.server import Standalone, eventually, running
from tests.integration.versions import FilePlace, Place, Webhook, crontab, example, with_versions
from tests.waiting import HANG_SECONDS

PLAIN = example("my-versioned-crontab")
CONVERTED = example("my-versioned-crontab-with-conversion")
KUBE_APISERVER, STANDALONE, AGGREGATED = "kube-apiserver", "standalone", "aggregated"


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A server that leaves the page's steps to whoever reads it."""
    with running(made := Standalone(tmp_path_factory.mktemp("manual") / "data", "--migrate-storage=false")):
        yield made


@pytest.fixture(params=[KUBE_APISERVER, STANDALONE, pytest.param(AGGREGATED, marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Place]:
    if request.param == AGGREGATED:
        made: Place = FilePlace(request.getfixturevalue("aggregation"), namespace, tmp_path)
    elif request.param == STANDALONE:
        made = Place(control_plane, "default", tmp_path, request.getfixturevalue("manual").kubeconfig)
    else:
        made = Place(control_plane, namespace, tmp_path)
    yield made
    made.remove()


only_where_definitions_are_an_api = pytest.mark.parametrize("place", [KUBE_APISERVER, STANDALONE], indirect=True)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    made = Webhook(tmp_path)
    yield made
    made.stop()


def without_version(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name != "apiVersion"}


# --- "Specify multiple versions", "Version priority"


def test_several_versions(place: Place) -> None:
    place.define(PLAIN)
    place.create(crontab(place.group, "v1beta1", "one", host="localhost", port="1234"))
    old, new = (place.get(f"crontabs.{version}.{place.group}", "one") for version in ("v1beta1", "v1"))
    assert (old["apiVersion"], new["apiVersion"]) == (f"{place.group}/v1beta1", f"{place.group}/v1")
    assert without_version(old) == without_version(new)
    assert place.get(f"crontabs.{place.group}", "one") == new  # v1 comes before v1beta1


IN_ORDER = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]


def test_version_priority(place: Place) -> None:
    schema = PLAIN["spec"]["versions"][0]["schema"]
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in sorted(IN_ORDER)]
    place.define({**PLAIN, "spec": {**PLAIN["spec"], "versions": versions}})

    def order() -> list[str]:
        group = json.loads(place.kubectl("get", "--raw", f"/apis/{place.group}").stdout)
        assert group["preferredVersion"]["version"] == group["versions"][0]["version"]
        return [version["version"] for version in group["versions"]]

    eventually(lambda: order() == IN_ORDER, "the order of the page")
    place.create(crontab(place.group, "foo10", "one"))
    assert place.get(f"crontabs.{place.group}", "one")["apiVersion"] == f"{place.group}/v10"


# --- "Version deprecation", "Version removal"

WARNING = (
    "example.com/v1alpha1 CronTab is deprecated; see http://example.com/v1alpha1-v1 for instructions to migrate to"
    " example.com/v1 CronTab"
)


def test_deprecated_versions(place: Place) -> None:
    schema = PLAIN["spec"]["versions"][0]["schema"]
    versions = [
        {"name": "v1alpha1", "served": True, "storage": False, "deprecated": True, "deprecationWarning": WARNING},
        {"name": "v1beta1", "served": True, "storage": False, "deprecated": True},
        {"name": "v1", "served": True, "storage": True},
    ]
    place.define({**PLAIN, "spec": {**PLAIN["spec"], "versions": [{**version, "schema": schema} for version in versions]}})
    said = {}
    for version in ("v1alpha1", "v1beta1", "v1"):
        made = crontab(place.group, version, version)
        said[version] = [
            place.kubectl("create", "-f", "-", input=json.dumps(made)).stderr,
            place.kubectl("get", f"crontabs.{version}.{place.group}", version).stderr,
        ]
    by_default = f"{place.group}/v1beta1 CronTab is deprecated; use {place.group}/v1 CronTab"
    assert said == {"v1alpha1": [f"Warning: {WARNING}\n"] * 2, "v1beta1": [f"Warning: {by_default}\n"] * 2, "v1": ["", ""]}


@only_where_definitions_are_an_api
def test_requested_deprecated_apis(place: Place) -> None:
    place.define(with_versions(PLAIN, v1beta1={"deprecated": True}))
    place.kubectl("get", f"crontabs.v1beta1.{place.group}")
    metrics = place.kubectl("get", "--raw", "/metrics").stdout.splitlines()
    series = 'group="example.com",removed_release="",resource="crontabs",subresource="",version="v1beta1"'
    [value] = [line.split()[1] for line in metrics if line.startswith(f"apiserver_requested_deprecated_apis{{{series}}}")]
    assert float(value) == 1  # "1.0" here


def test_a_version_that_is_served_no_longer(place: Place) -> None:
    place.define(PLAIN)
    place.create(crontab(place.group, "v1beta1", "one", host="a"))
    place.define(with_versions(PLAIN, v1beta1={"served": False, "storage": False}, v1={"storage": True}))
    eventually(
        lambda: "the server could not find the requested resource" in read(place, "v1beta1").stderr, "v1beta1 is not found"
    )
    assert place.get(f"crontabs.v1.{place.group}", "one")["host"] == "a"
    # "If any clients are still unexpectedly using the old version ..., switch back".
    place.define(with_versions(PLAIN, v1beta1={"storage": False}, v1={"storage": True}))
    assert place.get(f"crontabs.v1beta1.{place.group}", "one")["host"] == "a"


def read(place: Place, version: str) -> subprocess.CompletedProcess[str]:
    return place.kubectl("get", "--raw", f"{place.path(version)}/one", check=False)


# --- "Webhook conversion"


@pytest.mark.parametrize("review_version", ["v1", "v1beta1"])
def test_the_webhook_of_the_page(place: Place, webhook: Webhook, review_version: str) -> None:
    place.define({**CONVERTED, "spec": {**CONVERTED["spec"], "conversion": webhook.conversion(review_version)}})
    old, new = (f"crontabs.{version}.{place.group}" for version in ("v1beta1", "v1"))
    place.create(
        crontab(place.group, "v1beta1", "local-crontab", hostPort="localhost:1234"),
        crontab(place.group, "v1", "remote-crontab", host="example.com", port="2345"),
    )
    before = webhook.calls
    local, remote = (place.get(old, name) for name in ("local-crontab", "remote-crontab"))
    assert webhook.calls == before  # they are stored so
    assert (local["hostPort"], remote["hostPort"]) == ("localhost:1234", "example.com:2345")
    converted = {**local, "apiVersion": f"{place.group}/v1", "host": "localhost", "port": "1234"}
    del converted["hostPort"]
    assert place.get(new, "local-crontab") == converted

    listed = place.get(new)["items"]
    assert [(item["host"], item["port"]) for item in listed] == [("localhost", "1234"), ("example.com", "2345")]
    with place.watching(new) as watch:
        assert [json.loads(watch.lines.get(timeout=HANG_SECONDS))["object"]["host"] for _ in listed] == [
            "localhost",
            "example.com",
        ]
        place.kubectl("patch", old, "local-crontab", "--type=merge", "-p", '{"hostPort":"elsewhere:80"}')
        event = json.loads(watch.lines.get(timeout=HANG_SECONDS))
    assert (event["type"], event["object"]["host"], event["object"]["port"]) == ("MODIFIED", "elsewhere", "80")
    assert "hostPort" not in event["object"]
    place.kubectl("patch", new, "local-crontab", "--type=merge", "-p", '{"port":"81"}')
    assert place.get(old, "local-crontab")["hostPort"] == "elsewhere:81"
    assert "host: elsewhere" in place.kubectl("get", f"crontabs.{place.group}", "local-crontab", "-o", "yaml").stdout


def test_what_the_webhook_can_t_convert(place: Place, webhook: Webhook) -> None:
    place.define({**CONVERTED, "spec": {**CONVERTED["spec"], "conversion": webhook.conversion()}})
    place.create(crontab(place.group, "v1beta1", "one", hostPort="nonsense"))
    why = place.refused("get", f"crontabs.v1.{place.group}", "one")
    failed = f"conversion webhook for {place.group}/v1beta1, Kind=CronTab failed: "
    told = f" (converting {place.namespace}/one)" if place.ours else ""
    assert why == f"Error from server: {failed}hostPort could not be parsed into a separate host and port{told}\n"
    assert place.get(f"crontabs.v1beta1.{place.group}", "one")["hostPort"] == "nonsense"
    place.kubectl("patch", f"crontabs.v1beta1.{place.group}", "one", "--type=merge", "-p", '{"hostPort":"a:1"}')
    assert place.get(f"crontabs.v1.{place.group}", "one")["host"] == "a"


# --- "Upgrade existing objects to a new stored version"


@only_where_definitions_are_an_api
def test_upgrade_by_hand(place: Place, webhook: Webhook) -> None:
    """With the events that the page imagines; in the end no webhook is needed, since everything is stored as v1."""
    conversion = webhook.conversion()
    before = {**CONVERTED, "spec": {**CONVERTED["spec"], "conversion": conversion}}
    place.define(before)
    place.create(crontab(place.group, "v1beta1", "first", hostPort="a:1"))
    place.define(with_versions(before, v1beta1={"storage": False}, v1={"storage": True}))
    assert place.stored_versions() == ["v1beta1", "v1"]
    place.create(crontab(place.group, "v1beta1", "second", hostPort="b:2"))
    new = f"crontabs.v1.{place.group}"

    after = with_versions(before, v1beta1=None, v1={"storage": True})
    why = place.refused("apply", "-f", "-", input=json.dumps(after))
    assert 'status.storedVersions[0]: Invalid value: "v1beta1": missing from spec.versions; v1beta1 was previously a' in why

    place.kubectl("replace", "-f", "-", input=json.dumps(place.get(new)))
    patch = ("--subresource=status", "--type=merge", "-p", '{"status":{"storedVersions":["v1"]}}')
    place.kubectl("patch", "customresourcedefinitions", place.name, *patch)
    webhook.stop()
    place.define(after)
    assert place.stored_versions() == ["v1"]
    assert [(item["host"], item["port"]) for item in place.get(new)["items"]] == [("a", "1"), ("b", "2")]


@only_where_definitions_are_an_api
def test_an_object_in_a_version_that_is_gone(place: Place, webhook: Webhook) -> None:
    """Somebody has claimed that none is stored in the old version. The object is not guessed at, and is back with its version."""
    before = {**CONVERTED, "spec": {**CONVERTED["spec"], "conversion": webhook.conversion()}}
    place.define(before)
    place.create(crontab(place.group, "v1beta1", "one", hostPort="a:1"))
    moved = with_versions(before, v1beta1={"storage": False}, v1={"storage": True})
    place.define(moved)
    patch = ("--subresource=status", "--type=merge", "-p", '{"status":{"storedVersions":["v1"]}}')
    place.kubectl("patch", "customresourcedefinitions", place.name, *patch)
    place.put(with_versions(before, v1beta1=None, v1={"storage": True}))
    new = f"crontabs.v1.{place.group}"
    why = f"request to convert CR from an invalid group/version: {place.group}/v1beta1"
    eventually(lambda: why in place.kubectl("get", new, "one", check=False).stderr, "the version is gone")
    assert why in place.refused("get", new)
    assert why in place.refused("patch", new, "one", "--type=merge", "-p", '{"host":"b"}')
    place.put(moved)
    old = f"crontabs.v1beta1.{place.group}"
    eventually(lambda: place.kubectl("get", old, "one", check=False).returncode == 0, "the version is back")
    assert place.get(old, "one")["hostPort"] == "a:1"
    place.kubectl("delete", old, "one")  # while there is a webhook


@pytest.fixture(params=[STANDALONE, AGGREGATED])
def migrating(request: pytest.FixtureRequest, control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Place]:
    """aggserver with its defaults."""
    if request.param == AGGREGATED:
        made: Place = FilePlace(request.getfixturevalue("aggregation"), namespace, tmp_path)
    else:
        made = Place(control_plane, "default", tmp_path, request.getfixturevalue("standalone").kubeconfig)
    yield made
    made.remove()


def test_upgrade_by_itself(migrating: Place, webhook: Webhook) -> None:
    """The reader changes the storage version, waits, and removes the old one."""
    place, new = migrating, f"crontabs.v1.{migrating.group}"
    before = {**CONVERTED, "spec": {**CONVERTED["spec"], "conversion": webhook.conversion()}}
    place.define(before)
    place.create(*(crontab(place.group, "v1beta1", f"number-{index}", hostPort=f"a:{index}") for index in range(3)))
    place.define(with_versions(before, v1beta1={"storage": False}, v1={"storage": True}))
    eventually(lambda: place.stored_versions() == ["v1"], "the objects are migrated")
    webhook.stop()
    place.define(with_versions(before, v1beta1=None, v1={"storage": True}))
    assert [(item["host"], item["port"]) for item in place.get(new)["items"]] == [("a", str(index)) for index in range(3)]

"""The operator, run by kopf's own KopfRunner in a thread of the test, against aggserver: pip install kopf 'aggserver[pytest]'."""

from pathlib import Path

import pytest
from kopf.testing import KopfRunner
from kubernetes.watch import Watch

OPERATOR = Path(__file__).with_name("crontab_operator.py")
CRONTABS = {"group": "stable.example.com", "version": "v1", "plural": "crontabs"}


@pytest.fixture
def operator(aggserver_kubeconfig, aggserver_namespace):
    """Runs during a test; KUBECONFIG tells kopf where the server is."""
    with KopfRunner(["run", "--standalone", "--namespace", aggserver_namespace, str(OPERATOR)], timeout=30) as runner:
        yield runner
    assert runner.exit_code == 0
    assert runner.exception is None


@pytest.fixture
def create(aggserver_custom_objects, aggserver_namespace):
    def create(name, **spec):
        body = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}
        return aggserver_custom_objects.create_namespaced_custom_object(namespace=aggserver_namespace, body=body, **CRONTABS)

    return create


def first(is_it, function, *arguments, **more):
    """The first object that a list and the watch after it tell of and that `is_it`. A time-out shows the server's log."""
    for event in Watch().stream(function, *arguments, timeout_seconds=20, **more):
        if is_it(event["object"]):
            return event["object"]
    raise TimeoutError


def test_status(operator, create, aggserver_custom_objects, aggserver_namespace):
    create("nightly", cronSpec="30 2 * * *")
    watched = aggserver_custom_objects.list_namespaced_custom_object
    crontab = first(lambda found: "phase" in found.get("status", {}), watched, namespace=aggserver_namespace, **CRONTABS)
    assert crontab["status"]["phase"] == "Scheduled"
    assert crontab["status"]["schedule"]["hour"] == "2"


def test_events(operator, create, aggserver_core, aggserver_namespace):
    create("nightly", cronSpec="30 2 * * *", image="backup", replicas=2)
    event = first(lambda found: found.reason == "Scheduled", aggserver_core.list_namespaced_event, aggserver_namespace)
    assert (event.type, event.message) == ("Normal", "Runs 2 of backup")
    assert event.involved_object.name == "nightly"


def test_a_schedule_that_is_refused(operator, create, aggserver_core, aggserver_namespace):
    create("never", cronSpec="* *")
    event = first(lambda found: found.type == "Warning", aggserver_core.list_namespaced_event, aggserver_namespace)
    assert (event.reason, event.message) == ("Refused", "cronSpec has 2 fields, not 5")

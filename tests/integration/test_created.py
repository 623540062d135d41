"""kube-apiserver still answers what the files in tests/cases/kinds say, to which our defaults, tables and warnings are held; and
aggserver answers the same.
"""

from __future__ import annotations

import json
from typing import Any

from tests.cases.kind_objects import created as recorded
from tests.cases.kind_objects import tables, warnings
from tests.controlplane.cluster import Cluster
from tests.integration.created import created, warned_of
from tests.integration.raw import Client
from tests.integration.server import Standalone
from tests.integration.shown import shown_tables

# Not served in this version.
_ELSEWHERE = "autoscaling/v1.HorizontalPodAutoscaler"


def test_answers_are_those_recorded(control_plane: Cluster) -> None:
    with Client(control_plane.kubeconfig) as client:
        assert {(type_name, name): answer for type_name, name, answer in created(client)} == recorded()


def test_tables_are_those_recorded(control_plane: Cluster) -> None:
    with Client(control_plane.kubeconfig) as client:
        assert shown_tables(client) == tables()


def test_warnings_are_those_recorded(control_plane: Cluster) -> None:
    with Client(control_plane.kubeconfig) as client:
        assert warned_of(client) == warnings()


def test_warnings_of_dev_are_the_same(standalone: Standalone) -> None:
    with Client(standalone.kubeconfig) as client:
        assert warned_of(client) == warnings()


def test_answers_of_dev_are_the_same(standalone: Standalone) -> None:
    with Client(standalone.kubeconfig) as client:
        found = {f"{type_name} {name}": answer for type_name, name, answer in created(client, without=_ELSEWHERE)}
    expected = {f"{type_name} {name}": answer for (type_name, name), answer in recorded().items() if type_name != _ELSEWHERE}
    assert _asked_by_kubernetes_admin(found) == expected


def test_tables_of_dev_are_the_same(standalone: Standalone) -> None:
    expected = tables()
    del expected[_ELSEWHERE]
    with Client(standalone.kubeconfig) as client:
        assert _asked_by_kubernetes_admin(shown_tables(client, without=_ELSEWHERE)) == expected


def _asked_by_kubernetes_admin(answers: dict[str, Any]) -> Any:
    """The servers' administrators have other names, which are in CertificateSigningRequests."""
    return json.loads(json.dumps(answers).replace('"aggserver-admin"', '"kubernetes-admin"'))

"""kube-apiserver still answers what tests/cases/kinds/{created,tables}.yaml say, to which our defaults and tables are held."""

from __future__ import annotations

from tests.cases.kind_objects import created as recorded
from tests.cases.kind_objects import tables
from tests.controlplane.cluster import Cluster
from tests.integration.created import created
from tests.integration.raw import Client
from tests.integration.shown import shown_tables


def test_answers_are_those_recorded(control_plane: Cluster) -> None:
    with Client(control_plane.kubeconfig) as client:
        answers = {(type_name, name): answer for type_name, name, answer in created(client)}
    assert answers == recorded()


def test_tables_are_those_recorded(control_plane: Cluster) -> None:
    with Client(control_plane.kubeconfig) as client:
        assert shown_tables(client) == tables()

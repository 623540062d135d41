"""kube-apiserver still answers what the files in tests/cases/kinds say, to which our defaults, tables and warnings are held; and
aggserver answers the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cases.kind_objects import created as recorded
from tests.cases.kind_objects import given, tables, warnings
from tests.controlplane.plane import ControlPlane
from tests.integration.created import collection, created, warned_of
from tests.integration.raw import Client
from tests.integration.server import Standalone
from tests.integration.shown import ask, shown_tables


def test_answers_are_those_recorded(own_control_plane: ControlPlane) -> None:
    with Client(own_control_plane.kubeconfig) as client:
        assert {(type_name, name): answer for type_name, name, answer in created(client)} == recorded()


def test_tables_are_those_recorded(own_control_plane: ControlPlane) -> None:
    with Client(own_control_plane.kubeconfig) as client:
        assert shown_tables(client) == tables()


def test_warnings_are_those_recorded(own_control_plane: ControlPlane) -> None:
    with Client(own_control_plane.kubeconfig) as client:
        assert warned_of(client) == warnings()


def test_warnings_of_dev_are_the_same(standalone: Standalone) -> None:
    with Client(standalone.kubeconfig) as client:
        assert warned_of(client) == warnings()


def test_answers_of_dev_are_the_same(standalone: Standalone) -> None:
    with Client(standalone.kubeconfig) as client:
        found = {f"{type_name} {name}": answer for type_name, name, answer in created(client)}
    expected = {f"{type_name} {name}": answer for (type_name, name), answer in recorded().items()}
    assert _asked_by_kubernetes_admin(found) == expected


def test_tables_of_dev_are_the_same(standalone: Standalone) -> None:
    with Client(standalone.kubeconfig) as client:
        assert _asked_by_kubernetes_admin(shown_tables(client)) == tables()


def _asked_by_kubernetes_admin(answers: dict[str, Any]) -> Any:
    """The servers' administrators have other names, which are in CertificateSigningRequests."""
    return json.loads(json.dumps(answers).replace('"aggserver-admin"', '"kubernetes-admin"'))


def test_writers_of_signing_requests_own_the_same(own_control_plane: ControlPlane, standalone: Standalone) -> None:
    """Nobody owns the spec, which can't be changed, nor by `/status` whether the request is approved."""
    upstream, ours = _signing_managers(own_control_plane.kubeconfig), _signing_managers(standalone.kubeconfig)
    assert ours == upstream
    assert {manager for manager, *_ in ours} == {"approver", "labeler", "maker"}


def _signing_managers(kubeconfig: Path) -> list[tuple[str, str, Any]]:
    """Manager, subresource and fields of a request that was made, approved, failed and labeled."""
    (obj,) = (obj for type_name, _, obj in given() if type_name == "certificates/v1.CertificateSigningRequest")
    # With a label: owners are only kept of what had one from the beginning.
    obj["metadata"] |= {"name": "owned", "labels": {"made": "here"}}
    path = collection("certificates/v1.CertificateSigningRequest", "")
    approved = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
    failed = {"type": "Failed", "status": "True", "reason": "r"}
    with Client(kubeconfig) as client:
        made = ask(client, "POST", f"{path}?fieldManager=maker", obj)
        made["status"] = {"conditions": [approved]}
        made = ask(client, "PUT", f"{path}/owned/approval?fieldManager=approver", made)
        made["status"]["conditions"].append(failed)
        ask(client, "PUT", f"{path}/owned/status?fieldManager=signer", made)
        label = b'{"metadata":{"labels":{"a":"b"}},"spec":{"username":"other"}}'
        made = ask(client, "PATCH", f"{path}/owned?fieldManager=labeler", label, media_type="application/merge-patch+json")
        ask(client, "DELETE", f"{path}/owned")
    fields = made["metadata"]["managedFields"]
    return sorted((each["manager"], each.get("subresource", ""), each["fieldsV1"]) for each in fields)

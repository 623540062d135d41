"""The installer: its mapping is replaced as a whole, groups and versions are in order, and the server's own kinds are in it."""

from __future__ import annotations

import pytest

from aggserver.admission.chain import Chain
from aggserver.endpoints.fixed import FixedResource, Subresource
from aggserver.endpoints.installer import Installer
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.table import TableConvertor


def drop_odd(obj: JSONObject) -> list[str]:
    return ["odd"] if obj.pop("odd", None) else []


def kind(group: str, version: str, resource: str, *subresources: str, verbs: tuple[str, ...] = ("get", "list")) -> FixedResource:
    info = ResourceInfo(group, version, resource, resource.title()[:-1], f"{resource.title()[:-1]}List", namespaced=True)
    return FixedResource(
        info,
        object(),
        Chain(),
        singular=resource[:-1],
        verbs=verbs,
        table=TableConvertor([]),
        subresources={name: Subresource(object(), ("update",)) for name in subresources},
        conform=drop_odd,
    )


def test_find() -> None:
    installer = Installer()
    things = kind("g", "v1", "things")
    installer.install([("a", [things])])
    assert installer.find("g", "v1", "things") is things
    for missing in (("h", "v1", "things"), ("g", "v2", "things"), ("g", "v1", "others")):
        assert installer.find(*missing) is None
    assert list(installer.everything()) == [things]


def test_order() -> None:
    installer = Installer()
    installer.install(
        [
            ("a", [kind("late", "v1beta1", "things"), kind("late", "v2", "things"), kind("late", "v1", "things")]),
            ("b", [kind("early", "v1", "things"), kind("late", "v1", "others")]),
        ]
    )
    assert [group.name for group in installer.groups()] == ["late", "early"]
    (late, _) = installer.groups()
    assert [version.version for version in late.versions] == ["v2", "v1", "v1beta1"]
    assert [resource.name for resource in late.versions[1].resources] == ["things", "others"]
    assert [published.plural for published in installer.published("late", "v1")] == ["things", "others"]


def test_an_owner_is_replaced_or_withdrawn() -> None:
    installer = Installer()
    heard: list[int] = []
    installer.on_change(lambda: heard.append(installer.generation))
    installer.install([("a", [kind("g", "v1", "things")]), ("b", [kind("g", "v1", "others")])])
    installer.install([("a", [kind("g", "v2", "things")])])
    assert installer.find("g", "v1", "things") is None
    installer.install([("a", []), ("c", [])])
    assert [served.resource.name for served in installer.everything()] == ["others"]
    assert heard == [1, 2, 3]


def test_a_fixed_kind() -> None:
    things = kind("g", "v1", "things", "status", "finalize")
    assert (things.group, things.version, things.namespaced) == ("g", "v1", True)
    assert [(sub.name, sub.verbs) for sub in things.resource.subresources] == [("finalize", ("update",)), ("status", ("update",))]
    assert things.resource.storage_version_hash != ""
    assert things.published().status
    status = things.scope("status")
    assert status is not None
    assert (status.subresource, status.kind, status.object_version, status.verbs) == ("status", "Thing", "g/v1", {"update"})
    assert things.scope("scale") is None
    assert kind("g", "v1", "things").scope("status") is None
    assert kind("g", "v1", "reviews", verbs=("create",)).resource.storage_version_hash == ""


def test_conform_of_a_fixed_kind() -> None:
    scope = kind("g", "v1", "things").scope("")
    assert scope is not None
    obj = {"kind": "Thing", "apiVersion": "g/v1", "metadata": {"name": "a", "odd": 1}, "odd": 1}
    assert scope.conform(obj) == ["metadata.odd", "odd"]
    assert obj == {"kind": "Thing", "apiVersion": "g/v1", "metadata": {"name": "a"}}
    with pytest.raises(StatusError) as refused:
        scope.conform({"kind": "Other", "apiVersion": "g/v1", "metadata": {}})
    assert refused.value.message == 'Other in version "g/v1" cannot be handled as a Thing'


def test_which_installation_has_adopted_a_group_version() -> None:
    installer = Installer()
    assert installer.adopted_by("a.example.com", "v1") == ""
    installer.mark_adopted([("a.example.com", "v1"), ("a.example.com", "v2")], "one")
    installer.mark_adopted([("b.example.com", "v1")], "two")
    assert [installer.adopted_by(*each) for each in (("a.example.com", "v1"), ("b.example.com", "v1"))] == ["one", "two"]
    assert installer.adopted_by("a.example.com", "v3") == ""
    for _ in range(2):
        installer.mark_adopted([("a.example.com", "v1")], "")
    assert [installer.adopted_by("a.example.com", each) for each in ("v1", "v2")] == ["", "one"]

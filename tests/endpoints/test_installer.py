"""The installer: its mapping is replaced as a whole, groups and versions are in order, and the server's own kinds are in it."""

from __future__ import annotations

from aggserver.admission.chain import Chain
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.served import Endpoint, Served
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published


def kind(group: str, version: str, resource: str, *subresources: str) -> Served:
    info = ResourceInfo(group, version, resource, resource.title()[:-1], f"{resource.title()[:-1]}List", namespaced=True)
    below = tuple(APISubresource(name, info.kind, ("update",)) for name in subresources)
    type_name = f"{group}/{version}.{info.kind}"
    endpoints = {name: Endpoint.of_type(type_name, object()) for name in ("", *subresources)}
    published = Published(APIResource(info, ("get", "list"), subresources=below), type_name=type_name)
    return Served(published, endpoints.get, Chain())


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
    assert [resource.info.resource for resource in late.versions[1].resources] == ["things", "others"]
    assert [published.info.resource for published in installer.published("late", "v1")] == ["things", "others"]


def test_an_owner_is_replaced_or_withdrawn() -> None:
    installer = Installer()
    heard: list[int] = []
    installer.on_change(lambda: heard.append(installer.generation))
    installer.install([("a", [kind("g", "v1", "things")]), ("b", [kind("g", "v1", "others")])])
    installer.install([("a", [kind("g", "v2", "things")])])
    assert installer.find("g", "v1", "things") is None
    installer.install([("a", []), ("c", [])])
    assert [served.info.resource for served in installer.everything()] == ["others"]
    assert heard == [1, 2, 3]


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

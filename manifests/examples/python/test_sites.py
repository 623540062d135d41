"""Tests of sites.py without a socket: the whole chain in this process, with users, rights and hooks.

python -m pytest test_sites.py
"""

from __future__ import annotations

import asyncio

import pytest
from sites import Site, SiteSpec, Tracker, app, sites

from aggserver import Metadata, StatusError

WEB = Site(Metadata("web", "default"), SiteSpec("web:1", 3))


def test_owner_is_filled() -> None:
    async def run() -> None:
        async with app.client(user="ann", groups=["dev"], state=Tracker()) as ann:
            site = await ann.create(WEB)
            assert (site.metadata.labels, site.spec.replicas) == ({"owner": "ann"}, 3)

    asyncio.run(run())


def test_only_its_owner_may_change_it() -> None:
    async def run() -> None:
        async with app.client(user="ann", state=Tracker()) as ann:
            await ann.create(WEB)
            bob, operator = ann.as_user("bob"), ann.as_user("eve", groups=["ops"])
            with pytest.raises(StatusError, match="only its owner and ops may do this"):
                await bob.patch(sites, "web", {"spec": {"replicas": 4}})
            changed = await operator.patch(sites, "web", {"spec": {"replicas": 2}})
            assert changed.spec.replicas == 2
            assert operator.warnings == ["scaling down ends sessions"]

    asyncio.run(run())


def test_a_wrong_image() -> None:
    async def run() -> None:
        async with app.client(user="ann", state=Tracker()) as ann:
            with pytest.raises(StatusError, match=r"spec.image: Invalid value: \"web:latest\": must have a fixed tag"):
                await ann.create(Site(Metadata("web", "default"), SiteSpec("web:latest")))

    asyncio.run(run())


def test_approval() -> None:
    async def run() -> None:
        tracker = Tracker()
        async with app.client(user="ann", state=tracker) as ann:
            site = await ann.create(WEB)
            path = "/apis/paas.example.com/v1/namespaces/default/sites/web"
            assert (await ann.post(f"{path}/approve", {"comment": "fine"}))["kind"] == "Site"
            assert tracker.approvals == [(site.metadata.uid, "ann", "fine")]
            async with ann.stream(f"{path}/log?follow=true") as pieces:
                assert [piece async for piece in pieces] == [b"web started\n", b"and goes on\n"]

    asyncio.run(run())

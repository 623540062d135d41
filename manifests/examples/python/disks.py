"""A poll with a plain function, which runs in a thread: how full the file systems of this machine are.

kubectl get disks -w; kubectl wait disk/root --for jsonpath={.percent}=50
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from aggserver import App, ListRequest, Metadata

PLACES = {"root": "/", "temporary": "/tmp"}  # noqa: S108 - only looked at


@dataclass
class Disk:
    """A file system."""

    metadata: Metadata
    percent: int


app = App()
disks = app.virtual("node.example.com/v1", Disk, columns={"Used": ".percent"}, scope="Cluster", poll=30)


@disks.list
def list_disks(request: ListRequest[None]) -> Iterable[Disk]:
    for name, path in PLACES.items():
        usage = shutil.disk_usage(path)
        yield Disk(Metadata(name), 100 * usage.used // usage.total)

"""The workloads and their aims, in the order of the table.

A workload has the flags of the load client (benchmarks/load/main.go) and the figure that is compared. The aims are factors over
kube-apiserver in the same run, because figures of different machines can't be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

__all__ = ["OBJECTS", "WORKLOADS", "Workload", "chosen", "in_running_order"]

# Number of objects before the measurement: 37 MB as served, more than a page, and less than a second to read.
OBJECTS = 10_000

SEEDED = "bench"
CREATED = "bench-create"
WATCHED = "bench-watch"
NAMESPACES = (SEEDED, CREATED, WATCHED)


@dataclass(frozen=True)
class Workload:
    """`flags` are the load client's; `figure` is the field of its result that is compared, and `unit` its unit.

    `etcd_aim` is the aim if aggserver stores its objects in etcd too, None if it is the same.
    """

    name: str
    title: str
    aim: float
    flags: Mapping[str, str | int] = field(default_factory=dict)
    unit: str = "/s"
    figure: str = "rate_per_second"
    namespace: str = SEEDED
    # Writers come last, because their objects would affect the memory and the watch caches of later workloads.
    order: int = 0
    etcd_aim: float | None = None

    @property
    def aim_on_etcd(self) -> float:
        return self.aim if self.etcd_aim is None else self.etcd_aim


# etcd takes most of the time of its writes.
ETCD_WRITE_AIM = 1.5

WORKLOADS = (
    # A count and not a duration, so that the faster side does not have more objects at the end.
    Workload(
        "create",
        "create, 32 clients",
        4,
        {"workload": "create", "clients": 32, "count": 3000},
        namespace=CREATED,
        order=2,
        etcd_aim=ETCD_WRITE_AIM,
    ),
    Workload("get", "get, 32 clients", 3, {"workload": "get", "clients": 32}),
    Workload(
        "merge-patch",
        "merge patch, 32 clients",
        4,
        {"workload": "merge-patch", "clients": 32},
        order=1,
        etcd_aim=ETCD_WRITE_AIM,
    ),
    Workload(
        "apply",
        "server-side apply, 16 clients",
        4,
        {"workload": "apply", "clients": 16},
        order=1,
        etcd_aim=ETCD_WRITE_AIM,
    ),
    Workload(
        "list-all", "list of all objects, 2 clients", 15, {"workload": "list-all", "clients": 2}, "MB/s", "megabytes_per_second"
    ),
    Workload("list-500", "list limit=500, 4 clients", 12, {"workload": "list-500", "clients": 4}, "pages/s"),
    Workload("table-500", "Table limit=500, as kubectl asks, 4 clients", 5, {"workload": "table-500", "clients": 4}, "pages/s"),
    Workload(
        "watch-100",
        "watch: 100 watchers, 500 creates",
        1.5,
        {"workload": "watch", "watchers": 100, "count": 500, "clients": 16},
        "events/s",
        namespace=WATCHED,
        order=1,
    ),
    Workload(
        "watch-1000",
        "watch: 1,000 watchers, 100 creates",
        1,
        {"workload": "watch", "watchers": 1000, "count": 100, "clients": 16},
        "events/s",
        namespace=WATCHED,
        order=1,
    ),
)


def chosen(names: Sequence[str], *, quick: bool) -> list[Workload]:
    """The workloads with these names, all of them for none; `quick` has a fifth of the work.

    Raises KeyError with the first unknown name.
    """
    known = {workload.name: workload for workload in WORKLOADS}
    rows = [known[name] for name in names] if names else list(WORKLOADS)
    return [_shortened(row) for row in rows] if quick else rows


def in_running_order(rows: Sequence[Workload]) -> list[Workload]:
    """Readers before writers, otherwise in the given order."""
    return sorted(rows, key=lambda row: row.order)


def _shortened(row: Workload) -> Workload:
    smaller = {"count": 5, "watchers": 5}
    flags = {
        name: value // smaller[name] if name in smaller and isinstance(value, int) else value for name, value in row.flags.items()
    }
    return replace(row, flags=flags)

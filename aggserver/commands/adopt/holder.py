"""Holder: which aggserver moves definitions now, by their Lease, and what to do if none does. Pure.

A Lease says when it was renewed by the clock of its holder, which may differ from the clock here. So a holder is reported as gone
only if its Lease was also seen unchanged for some seconds.
Source: the Lease is that of `cluster/lease.py`.
"""

from __future__ import annotations

from aggserver.adoption.records.record import LEASE
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.times import parse_time

__all__ = ["SURE_SECONDS", "is_doubtful", "problem", "shown"]

# Longer than the time between two renewals, and than another server takes to acquire the Lease after its holder has ended.
SURE_SECONDS = 5.0


def is_doubtful(lease: JSONMapping | None, now: float) -> bool:
    """Whether the Lease looks as if it has no holder, or has expired. now: seconds since 1970."""
    spec = _spec(lease)
    try:
        expires = parse_time(str(spec.get("renewTime"))) + float(spec.get("leaseDurationSeconds") or 0)
    except ValueError:
        return True
    return not spec.get("holderIdentity") or expires < now


def problem(lease: JSONMapping | None, namespace: str, unchanged: float, now: float) -> str:
    """Why no server moves definitions, and what to do; '' if one does or probably does.

    unchanged: for how many seconds the Lease was seen in this state. now: seconds since 1970.
    """
    spec = _spec(lease)
    duration = float(spec.get("leaseDurationSeconds") or 0)
    if unchanged < SURE_SECONDS or (unchanged <= duration and not is_doubtful(lease, now)):
        return ""
    if lease is None:
        return (
            f"no aggserver moves definitions: namespace {namespace} has no Lease {LEASE}. Start one with --adopt, and with this "
            "namespace as its --service-namespace"
        )
    if not spec.get("holderIdentity"):
        return f"no aggserver moves definitions: the last one has ended at {spec.get('renewTime')}. Start one on the same store"
    return (
        f"no aggserver moves definitions: {spec['holderIdentity']} has not renewed the Lease {LEASE} since "
        f"{spec.get('renewTime')}. It has ended, can't reach the cluster, or can't write to it, for example to a full etcd. "
        "Another replica takes its place by itself; if there is none, start one on the same store, or release from a backup if "
        "that is lost"
    )


def shown(lease: JSONMapping | None, trouble: str) -> JSONObject:
    """The server in the output of `adopt status`. trouble: see `problem`."""
    spec = _spec(lease)
    return {"holder": spec.get("holderIdentity") or "", "renewTime": spec.get("renewTime") or "", "problem": trouble}


def _spec(lease: JSONMapping | None) -> JSONMapping:
    return (lease or {}).get("spec") or {}

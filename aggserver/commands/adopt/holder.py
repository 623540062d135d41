"""Holder: which aggserver moves definitions now, as their Lease has it, and what to do if none does. Pure.

A Lease says when it was renewed, by the clock of its holder, which need not agree with the one here. So nobody is called gone who
was not also seen to do nothing for some seconds.
Source: the Lease is that of `cluster/lease.py`.
"""

from __future__ import annotations

from aggserver.adoption.records.record import LEASE
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.times import parse_time

__all__ = ["SURE_SECONDS", "is_doubtful", "problem", "shown"]

# Longer than a holder lets pass between two renewals, and than another server takes to follow one that has ended.
SURE_SECONDS = 5.0


def is_doubtful(lease: JSONMapping | None, now: float) -> bool:
    """Whether it looks as if nobody held the Lease. now: seconds since 1970."""
    spec = _spec(lease)
    try:
        expires = parse_time(str(spec.get("renewTime"))) + float(spec.get("leaseDurationSeconds") or 0)
    except ValueError:
        return True
    return not spec.get("holderIdentity") or expires < now


def problem(lease: JSONMapping | None, namespace: str, unchanged: float, now: float) -> str:
    """Why nothing is moved, and what to do; '' if a server moves definitions, or may well do so.

    unchanged: for how many seconds the Lease was seen as it is.
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
    """What the status says of the server. trouble: see `problem`."""
    spec = _spec(lease)
    return {"holder": spec.get("holderIdentity") or "", "renewTime": spec.get("renewTime") or "", "problem": trouble}


def _spec(lease: JSONMapping | None) -> JSONMapping:
    return (lease or {}).get("spec") or {}

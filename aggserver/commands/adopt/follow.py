"""Follow: what is said of a release or a cleanup while it goes on, from the entries of the status ConfigMap. Pure.

Source: none; the entries are those of `adoption/status.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from aggserver.adoption.records.record import Phase
from aggserver.meta.json_types import JSONMapping

__all__ = ["Ending", "cleaned", "discarded", "line", "released"]


class Ending(StrEnum):
    GOING_ON = "GoingOn"
    DONE = "Done"
    FAILED = "Failed"


def released(first: JSONMapping | None, now: JSONMapping | None) -> Ending:
    """first: the definition's entry when the release was asked for; None: it had none, and is not adopted."""
    if now is None or now["phase"] == Phase.WAITING.value:
        return Ending.DONE
    # A release that can't go on leaves the family adopted, and says why.
    if first is not None and now["phase"] == Phase.ADOPTED.value and now.get("reason") and now["since"] != first["since"]:
        return Ending.FAILED
    return Ending.GOING_ON


def discarded(first: JSONMapping | None, now: JSONMapping | None) -> Ending:
    """As `released`, of which this is one where the server has adopted the definition after all."""
    entries = [(each["phase"], each.get("reason")) for each in (first, now) if each is not None]
    # It waits for this already, since the cluster has the definition by itself.
    return Ending.GOING_ON if len(set(entries)) == 1 and len(entries) == 2 else released(first, now)


def cleaned(first: JSONMapping | None, now: JSONMapping | None) -> Ending:
    if now is None:
        return Ending.FAILED
    # A removal that can't go on says why. The number of those that are left is kept until all are gone.
    if now.get("reason") and now.get("told") != (first or {}).get("told"):
        return Ending.FAILED
    return Ending.GOING_ON if (now.get("copied") or {}).get("objects", 0) else Ending.DONE


def line(definition: str, before: JSONMapping | None, now: JSONMapping | None) -> str:
    """What is new of a definition, in one line; '' if nothing is."""
    if now is None:
        return f"{definition}: served by kube-apiserver" if before is not None else ""
    seen: Mapping[str, object] = before or {}
    said = []
    if (seen.get("phase"), seen.get("reason")) != (now["phase"], now.get("reason")):
        said.append(str(now["phase"]) + (f": {now['reason']}" if now.get("reason") else ""))
    if now.get("told") and now["told"] != seen.get("told") and now["told"]["message"] != now.get("reason"):
        said.append(str(now["told"]["message"]))
    return f"{definition}: {'; '.join(said)}" if said else ""

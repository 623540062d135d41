"""Follow: the progress and outcome of a release or a cleanup, from the entries of the status ConfigMap. Pure.

Source: none; the entries are those of `adoption/status.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from aggserver.adoption.families import ADOPTION
from aggserver.adoption.records.record import Phase
from aggserver.meta.json_types import JSONMapping

__all__ = ["Ending", "after_release", "cleaned", "discarded", "line", "released"]


class Ending(StrEnum):
    GOING_ON = "GoingOn"
    DONE = "Done"
    FAILED = "Failed"


def released(first: JSONMapping | None, now: JSONMapping | None) -> Ending:
    """The outcome of a release. first, now: the definition's entry when it was asked for, and now; None: it is not adopted."""
    if now is None or now["phase"] == Phase.WAITING.value:
        return Ending.DONE
    # A release that can't go on leaves the family adopted, and says why.
    if first is not None and now["phase"] == Phase.ADOPTED.value and now.get("reason") and now["since"] != first["since"]:
        return Ending.FAILED
    return Ending.GOING_ON


def discarded(first: JSONMapping | None, now: JSONMapping | None) -> Ending:
    """The outcome of a release with --discard. If the definition is adopted after all, it is that of a release."""
    entries = [(each["phase"], each.get("reason")) for each in (first, now) if each is not None]
    # Unchanged: it was Waiting before the request, since the cluster serves the definition by itself.
    return Ending.GOING_ON if len(set(entries)) == 1 and len(entries) == 2 else released(first, now)


def cleaned(first: JSONMapping | None, now: JSONMapping | None) -> Ending:
    if now is None:
        return Ending.FAILED
    # A removal that can't go on says why. The number of leftovers is shown until all are gone.
    if now.get("reason") and now.get("told") != (first or {}).get("told"):
        return Ending.FAILED
    return Ending.GOING_ON if (now.get("copied") or {}).get("objects", 0) else Ending.DONE


def after_release(definitions: Sequence[str], asked: str) -> str:
    """The last line of a release that is done. asked: the value of the annotation that has asked for it, and that stays."""
    which, them = ("this definition", "it") if len(definitions) == 1 else (f"these {len(definitions)} definitions", "them")
    return (
        f"released: kube-apiserver serves {which}, and the annotation {ADOPTION}: {asked} keeps aggserver from adopting {them} "
        f"again. To adopt {them} again, remove it: kubectl annotate crd {' '.join(definitions)} {ADOPTION}-"
    )


def line(definition: str, before: JSONMapping | None, now: JSONMapping | None) -> str:
    """One line of text with what has changed in a definition's entry; '' if nothing has."""
    if now is None:
        return f"{definition}: served by kube-apiserver" if before is not None else ""
    seen: Mapping[str, object] = before or {}
    parts = []
    if (seen.get("phase"), seen.get("reason")) != (now["phase"], now.get("reason")):
        parts.append(str(now["phase"]) + (f": {now['reason']}" if now.get("reason") else ""))
    if now.get("told") and now["told"] != seen.get("told") and now["told"]["message"] != now.get("reason"):
        parts.append(str(now["told"]["message"]))
    return f"{definition}: {'; '.join(parts)}" if parts else ""

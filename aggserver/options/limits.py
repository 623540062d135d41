"""How much of what the server takes."""

from __future__ import annotations

from dataclasses import dataclass

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH, DEV, PLAN
from aggserver.options.flag import option

__all__ = ["LimitOptions"]


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Fields of Options; see the help of each."""

    protect_definitions: bool = option(
        False,
        "protect-definitions",
        convert.boolean,
        flag.LIMITS,
        "refuse to delete a CustomResourceDefinition that still has objects, unless its annotations permit it",
        commands=DEV,
    )
    enable_priority_and_fairness: bool = option(
        True,
        "enable-priority-and-fairness",
        convert.boolean,
        flag.LIMITS,
        "let requests wait in fair queues when more come than both limits of concurrent requests allow together; if false, or if "
        "both are 0, each limit is for itself, and what exceeds it is rejected",
        commands=BOTH,
    )
    max_requests_inflight: int = option(
        400,
        "max-requests-inflight",
        convert.integer,
        flag.LIMITS,
        "maximum of concurrent read requests; 0 is no limit",
        metavar="N",
        commands=BOTH,
    )
    max_mutating_requests_inflight: int = option(
        200,
        "max-mutating-requests-inflight",
        convert.integer,
        flag.LIMITS,
        "maximum of concurrent mutating requests; 0 is no limit",
        metavar="N",
        commands=BOTH,
    )
    request_timeout_seconds: float = option(
        60.0,
        "request-timeout",
        convert.seconds,
        flag.LIMITS,
        "time limit of a request; watches are exempt",
        metavar="DURATION",
        commands=BOTH,
    )
    max_object_bytes: int = option(
        3 * 1024 * 1024,
        "max-object-bytes",
        convert.positive,
        flag.LIMITS,
        "largest object that is stored, in bytes of JSON; request bodies are limited to 3 MiB regardless",
        metavar="BYTES",
        commands=BOTH | PLAN,
    )

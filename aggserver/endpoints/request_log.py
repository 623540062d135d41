"""A line of the log for each request, at the level debug, to find out which requests a failing test or a client has sent.

    create /apis/shop.example.com/v1/namespaces/a/shops by "jane": 403 in 2 ms: shops.shop.example.com is forbidden: User ...

The line is written when the head of the response is sent, so lines are in the order of the responses, and a watch has its line at
its beginning. Headers and bodies are never logged, so neither are tokens. Of the query only the parameters of Kubernetes' API are
logged, since others may contain credentials. Validation messages quote values, so for kinds that hold credentials the reason is
logged instead. Each part is cut to a limit first; `app/logs.py` escapes the line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from urllib.parse import quote as percent_encoded

from aggserver.endpoints.request import Message, Request, Send
from aggserver.meta import golang

__all__ = ["described", "is_on", "logging_sender"]

log = logging.getLogger("aggserver.requests")

# Limits in characters for the path, a parameter's value, the user's name and the message. Ordinary ones are shorter.
_PATH, _VALUE, _USER, _MESSAGE = 512, 128, 256, 1024
# Characters that are not percent-encoded in paths and values: those of names, media types and selectors. None is a space.
_SAFE = "/:@!$'()*,=~"
# The logged parameters: those of ListOptions, GetOptions, CreateOptions, PatchOptions and DeleteOptions.
_SHOWN = (
    "watch",
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
    "timeout",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "propagationPolicy",
    "orphanDependents",
    "gracePeriodSeconds",
)
# (group, resource) of kinds whose objects hold credentials; (resource, subresource) whose responses do.
_CREDENTIALS = frozenset({("", "secrets"), ("authentication.k8s.io", "tokenreviews")})
_TOKEN_REQUESTS = ("serviceaccounts", "token")


def is_on() -> bool:
    return log.isEnabledFor(logging.DEBUG)


def logging_sender(request: Request, send: Send, clock: Callable[[], float], started: float) -> Send:
    """`send`, which also logs the request when it sends the head of the response. started: by the clock, in seconds."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            log.debug("%s", _line(request, message["status"], clock() - started))
        await send(message)

    return sender


def described(request: Request) -> str:
    """Verb, path, parameters and user, without anything secret."""
    return f"{request.info.verb} {_target(request)} by {golang.quote(_cut(request.user.name, _USER))}"


def _line(request: Request, status: int, seconds: float) -> str:
    line = f"{described(request)}: {status} in {seconds * 1000:.0f} ms"
    return f"{line}: {_why(request, *request.failure)}" if request.failure is not None else line


def _target(request: Request) -> str:
    shown = [f"{name}={_encoded(request.query[name], _VALUE)}" for name in _SHOWN if name in request.query]
    return _encoded(request.path, _PATH) + (f"?{'&'.join(shown)}" if shown else "")


def _encoded(text: str, limit: int) -> str:
    """Cut and percent-encoded, so that a path has no spaces and can't imitate the rest of the line."""
    return percent_encoded(_cut(text, limit), safe=_SAFE, errors="replace")


def _why(request: Request, reason: str, message: str) -> str:
    info = request.info
    holds_credentials = (info.group, info.resource) in _CREDENTIALS or (info.resource, info.subresource) == _TOKEN_REQUESTS
    return _cut(reason if holds_credentials else message, _MESSAGE)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."

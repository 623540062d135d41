"""One line of the log for each request, at the level debug, for a person whose tests fail and who did not see a request.

    create /apis/shop.example.com/v1/namespaces/a/shops by "jane": 403 in 2 ms: shops.shop.example.com is forbidden: User ...

It is written when the head of the response is sent, so that a watch has its line where it begins, and lines are in the order of
the answers. Headers and bodies are never in it, so neither are tokens. Of the query only parameters of Kubernetes' API are, since
anything else may be a credential that a client put there. Messages of validation quote values, so those about kinds that hold
credentials are left out. Everything is cut before it is put together; `app/logs.py` escapes what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from urllib.parse import quote as percent_encoded

from aggserver.endpoints.request import Message, Request, Send
from aggserver.meta import golang

__all__ = ["is_on", "logging_sender"]

log = logging.getLogger("aggserver.requests")

# Characters of the path, of a parameter's value, of the user's name and of the message that are in a line. Ordinary ones fit.
_PATH, _VALUE, _USER, _MESSAGE = 512, 128, 256, 1024
# Left as they are in paths and values: they are in names, media types and selectors, and none ends the word.
_SAFE = "/:@!$'()*,=~"
# Parameters of ListOptions, GetOptions, CreateOptions, PatchOptions and DeleteOptions that are no free text.
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
# Kinds whose objects hold credentials, by group and resource; and the resource and subresource that answers with one.
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


def _line(request: Request, status: int, seconds: float) -> str:
    user = golang.quote(_cut(request.user.name, _USER))
    line = f"{request.info.verb} {_target(request)} by {user}: {status} in {seconds * 1000:.0f} ms"
    return f"{line}: {_why(request, *request.failure)}" if request.failure is not None else line


def _target(request: Request) -> str:
    shown = [f"{name}={_encoded(request.query[name], _VALUE)}" for name in _SHOWN if name in request.query]
    return _encoded(request.path, _PATH) + (f"?{'&'.join(shown)}" if shown else "")


def _encoded(text: str, limit: int) -> str:
    """Without spaces, so that nobody's path looks like the rest of a line."""
    return percent_encoded(_cut(text, limit), safe=_SAFE, errors="replace")


def _why(request: Request, reason: str, message: str) -> str:
    info = request.info
    holds_credentials = (info.group, info.resource) in _CREDENTIALS or (info.resource, info.subresource) == _TOKEN_REQUESTS
    return _cut(reason if holds_credentials else message, _MESSAGE)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."

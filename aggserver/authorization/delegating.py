"""Authorization: allow or deny for given Attributes, by the hosting API server.

Members of system:masters and the always allowed paths (health) pass without a review. For everything else a SubjectAccessReview
decides, and its decision is cached for ten seconds by default. A cache hit costs a few microseconds: the attributes are the key.
Source: k8s.io/apiserver pkg/server/options/authorization.go, plugin/pkg/authorizer/webhook, pkg/authorization/path, v0.36.3.
"""

from __future__ import annotations

import asyncio
import random as randomness
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, Protocol

from aggserver.authentication.user import PRIVILEGED_GROUP
from aggserver.authorization.attributes import Attributes, review_body
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.answers import Answers
from aggserver.cluster.pacing import Sleep, TokenBucket, retrying
from aggserver.meta import errors

__all__ = ["ALLOWED", "HEALTH_PATHS", "Authorizer", "Decision", "DelegatingAuthorizer", "OpenPaths", "is_always_allowed"]

ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

# The kubelet's probes send no credentials.
HEALTH_PATHS = ("/healthz", "/readyz", "/livez")

# Upstream's defaults. A permission that is revoked may stay in effect for ALLOW_SECONDS.
ALLOW_SECONDS = 10.0
DENY_SECONDS = 10.0
KEPT_DECISIONS = 8192
REVIEW_SECONDS = 10.0
REVIEWS_PER_SECOND = 200.0
REVIEWS_AT_ONCE = 400

# Decisions about longer attributes (characters of all strings) are not cached: clients choose them, and could fill the memory.
MAX_KEPT_LENGTH = 10_000


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    async def authorize(self, attributes: Attributes) -> Decision:
        """Whether `attributes` are allowed. Raises StatusError (500) if no decision could be obtained."""


class OpenPaths:
    """Paths that need no permission: exact ones, and prefixes that end with `*`. The leading `/` is optional.

    Raises ValueError if a `*` is not at the end.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        exact: set[str] = set()
        prefixes: list[str] = []
        for path in paths:
            plain = path.removeprefix("/")
            if "*" in plain[:-1]:
                raise ValueError(f'only trailing * allowed in "{plain}"')
            if plain.endswith("*"):
                prefixes.append(plain[:-1])
            else:
                exact.add(plain)
        self._exact = frozenset(exact)
        self._prefixes = tuple(prefixes)

    def __contains__(self, path: str) -> bool:
        plain = path.removeprefix("/")
        return plain in self._exact or (bool(self._prefixes) and plain.startswith(self._prefixes))


ALLOWED = Decision(True)


def is_always_allowed(attributes: Attributes, open_paths: OpenPaths) -> bool:
    """Whether no authorizer is asked: for members of system:masters, and for open paths."""
    return PRIVILEGED_GROUP in attributes.user.groups or (not attributes.on_resource and attributes.path in open_paths)


class DelegatingAuthorizer:
    """Asks the hosting API server. Concurrent requests with the same attributes share a review.

    `allow_seconds` and `deny_seconds` are the TTLs of cached decisions; 0 turns the cache off for them.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        open_paths: Iterable[str] = HEALTH_PATHS,
        allow_seconds: float = ALLOW_SECONDS,
        deny_seconds: float = DENY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._cluster = cluster
        self._allow_seconds = allow_seconds
        self._deny_seconds = deny_seconds
        self._open_paths = OpenPaths(open_paths)
        self._sleep = sleep
        self._random = random
        self._bucket = TokenBucket(REVIEWS_PER_SECOND, REVIEWS_AT_ONCE, clock=clock, sleep=sleep)
        self._answers: Answers[Hashable, Decision] = Answers(KEPT_DECISIONS, clock)

    async def authorize(self, attributes: Attributes) -> Decision:
        if is_always_allowed(attributes, self._open_paths):
            return ALLOWED
        key = _key(attributes)
        kept = self._answers.get(key)
        if kept is not None:
            return kept
        try:
            return await self._answers.ask(key, lambda: self._question(attributes))
        except (ClusterError, Unreachable) as error:
            raise errors.internal_error(f"the request could not be authorized: {error}") from error

    async def _question(self, attributes: Attributes) -> tuple[Decision, float]:
        body = review_body(attributes)

        async def review() -> dict[str, object]:
            await self._bucket.take()
            return await self._cluster.request("POST", ACCESS_REVIEWS, body=body, timeout=REVIEW_SECONDS)

        answer = await retrying(review, sleep=self._sleep, random=self._random)
        status = answer.get("status")
        if not isinstance(status, dict):
            raise ClusterError(200, "", "the SubjectAccessReview in the answer has no status")
        allowed, denied = bool(status.get("allowed")), bool(status.get("denied"))
        if allowed and denied:
            raise ClusterError(200, "", "webhook subject access review returned both allow and deny response")
        seconds = (self._allow_seconds if allowed else self._deny_seconds) if _may_be_kept(attributes) else 0.0
        return Decision(allowed, str(status.get("reason", ""))), seconds


def _key(attributes: Attributes) -> Hashable:
    """The attributes as a hashable value. Only the user's extra fields, a mapping, have to be converted."""
    user = attributes.user
    extra = tuple(sorted(user.extra.items())) if user.extra else ()
    return (user.name, user.uid, user.groups, extra, attributes[1:])


def _may_be_kept(attributes: Attributes) -> bool:
    return sum(map(len, attributes[1:])) < MAX_KEPT_LENGTH

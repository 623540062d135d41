"""Figures of the requests to the hosting API server, for metrics.

Source: k8s.io/component-base metrics/prometheus/restclient/metrics.go, k8s.io/apiserver pkg/authentication/authenticatorfactory
and pkg/authorization/authorizerfactory metrics.go, v0.36.3.
"""

from __future__ import annotations

from typing import TypeVar

from aggserver.meta.distribution import Distribution

__all__ = ["ClientFigures"]

K = TypeVar("K")

REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # seconds
REVIEW_BUCKETS = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)  # seconds


class ClientFigures:
    """requests: by code and method; the code is `<error>` where there was no answer. seconds: until the head of the answer, by
    method. reviews: of tokens and of access, by kind (authn, authz) and code.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str], int] = {}
        self.seconds: dict[str, Distribution] = {}
        self.reviews: dict[tuple[str, str], Distribution] = {}

    def answered(self, method: str, path: str, code: str, seconds: float) -> None:
        counted = code, method
        self.requests[counted] = self.requests.get(counted, 0) + 1
        _observe(self.seconds, method, REQUEST_BUCKETS, seconds)
        if method == "POST" and path.endswith("reviews"):
            kind = "authn" if path.endswith("/tokenreviews") else "authz"
            _observe(self.reviews, (kind, code), REVIEW_BUCKETS, seconds)


def _observe(found: dict[K, Distribution], key: K, bounds: tuple[float, ...], seconds: float) -> None:
    distribution = found.get(key)
    if distribution is None:
        distribution = found[key] = Distribution(bounds)
    distribution.observe(seconds)

"""Retry-After: the seconds after which a rejected request may be sent again.

They double while much is rejected, to 32, and become fewer one by one when little is, and by half when nothing is. Each client is
told a different number up to twice that, so that those which were rejected together do not return together.
Pure. Source: k8s.io/apiserver pkg/util/flowcontrol/dropped_requests_tracker.go, v0.36.3, which tells all the same number.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["RetryAfter"]

_LONGEST = 32
# Rejections per second of waiting above which the time is doubled.
_MANY = 3


class RetryAfter:
    """Of one priority level. random: an integer in [0, argument)."""

    def __init__(self, random: Callable[[int], int]) -> None:
        self.seconds = 1
        self._random = random
        self._since = 0.0  # when `seconds` was last changed
        self._rejected = 0  # since then

    def reject(self, now: float) -> int:
        """Count a rejection. Returns the seconds that its client is told."""
        passed = now - self._since
        if passed >= self.seconds:
            if quiet := int(passed // self.seconds) - 1:
                self.seconds = max(1, self.seconds >> quiet)
            elif self._rejected >= _MANY * self.seconds:
                self.seconds = min(2 * self.seconds, _LONGEST)
            elif self._rejected < self.seconds:
                self.seconds = max(1, self.seconds - 1)
            self._since, self._rejected = now, 0
        self._rejected += 1
        return self.seconds + self._random(self.seconds + 1)

"""Health checks: the content of `/livez`, `/readyz` and `/healthz`.

The reason of a failed check is withheld from the summary, which anybody may read, and given at the check's own path, which
needs a permission. `routes.py` serves both.
Source: k8s.io/apiserver pkg/server/healthz/healthz.go, k8s.io/component-base metrics/prometheus/slis, v0.36.3.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

__all__ = ["Check", "HealthChecks"]

log = logging.getLogger(__name__)

Check = Callable[[], str | None]


@dataclass(slots=True)
class HealthChecks:
    """Named checks, in the order in which they were added. A check returns None, or the reason of its failure. It must not block.

    A check may have a warning, a function that also returns None or a reason, but does not fail the check: the server works, but
    something needs attention. The check `ping` always exists, and for readiness also `shutdown`, which fails once
    `begin_shutdown` was called.
    """

    _livez: dict[str, Check] = field(default_factory=dict)
    _readyz: dict[str, Check] = field(default_factory=dict)
    _warnings: dict[str, Check] = field(default_factory=dict)
    _shutting_down: bool = False
    # For each check and endpoint, whether it passed when it was last run; and how often it has passed and failed.
    _last: dict[tuple[str, str], bool] = field(default_factory=dict)
    _counts: dict[tuple[str, bool, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.add("ping", lambda: None)
        self.add("shutdown", lambda: "process is shutting down" if self._shutting_down else None, livez=False)

    def add(self, name: str, check: Check, *, livez: bool = True, warning: Check | None = None) -> None:
        """Add or replace a check. livez=False: leave it out of `livez`, since a restart would not repair its failure."""
        if warning is not None:
            self._warnings[name] = warning
        if livez:
            self._livez[name] = check
        self._readyz[name] = check

    def begin_shutdown(self) -> None:
        self._shutting_down = True

    def of(self, endpoint: str) -> dict[str, Check]:
        """The checks of `livez`, `readyz` or `healthz`, which is the old name of `livez`."""
        return self._readyz if endpoint == "readyz" else self._livez

    def warning(self, name: str) -> str | None:
        check = self._warnings.get(name)
        return check() if check is not None else None

    def report(self, endpoint: str, *, verbose: bool, excluded: Iterable[str]) -> tuple[bool, str]:
        """Whether all checks pass, and the body of the response."""
        unknown = set(excluded)
        lines: list[str] = []
        failures: dict[str, str] = {}
        for name, check in self.of(endpoint).items():
            if name in unknown:
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            why = check()
            self._count(name, endpoint, passed=not why)
            if why:
                failures[name] = why
                lines.append(f"[-]{name} failed: reason withheld\n")
            elif self.warning(name):
                lines.append(f"[+]{name} ok, with a warning: reason withheld\n")
            else:
                lines.append(f"[+]{name} ok\n")
        if missing := sorted(unknown - self.of(endpoint).keys()):
            names = ",".join(json.dumps(name) for name in missing)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failures:
            log.info("%s check failed: %s", endpoint, "; ".join(f"{name}: {why}" for name, why in failures.items()))
            return False, f"{''.join(lines)}{endpoint} check failed\n"
        return True, f"{''.join(lines)}{endpoint} check passed\n" if verbose else "ok"

    def _count(self, name: str, endpoint: str, *, passed: bool) -> None:
        self._last[name, endpoint] = passed
        counted = name, passed, endpoint
        self._counts[counted] = self._counts.get(counted, 0) + 1

    def exposition(self) -> str:
        """The metrics of the checks in Prometheus' text format, from which the server's availability can be computed (SLIs)."""
        lines = []
        if self._last:
            lines += _family("kubernetes_healthcheck", "gauge", "This metric records the result of a single healthcheck.")
            for (name, endpoint), passed in sorted(self._last.items()):
                lines.append(f'kubernetes_healthcheck{{name="{name}",type="{endpoint}"}} {int(passed)}\n')
            lines += _family("kubernetes_healthchecks_total", "counter", "This metric records the results of all healthcheck.")
            # By the labels in the order of their names, `error` before `success`.
            for (name, passed, endpoint), count in sorted(self._counts.items()):
                labels = f'name="{name}",status="{"success" if passed else "error"}",type="{endpoint}"'
                lines.append(f"kubernetes_healthchecks_total{{{labels}}} {count}\n")
        return "".join(lines)


def _family(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} [STABLE] {about}\n", f"# TYPE {name} {kind}\n"]

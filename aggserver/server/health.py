"""The edges of the server: health checks, `/version`, `/metrics` and the index of paths.

`edges` makes a starlette application of them, which `app.py` puts behind the filters for every path that is no API's. Bodies are
kube-apiserver's to the byte: load balancers, kubelets and scripts match on them. The reason of a failed check is withheld from
the summary, which anybody may read, and given by the check's own path, which needs a permission.
Source: k8s.io/apiserver pkg/server/healthz/healthz.go, pkg/server/routes/{index,version}.go, v0.36.3.
"""

from __future__ import annotations

import json
import logging
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aggserver.server.connection import ASGIApp
from aggserver.server.metrics import CONTENT_TYPE, Metrics

__all__ = ["KUBERNETES_VERSION", "Check", "HealthChecks", "edges", "version_info"]

log = logging.getLogger(__name__)

# The release whose behaviour is served. kubectl compares it with its own and warns past one minor version of skew.
KUBERNETES_VERSION = "1.36.3"

TEXT_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}

Check = Callable[[], str | None]


@dataclass(slots=True)
class HealthChecks:
    """Named checks, in the order they were added. A check returns None when all is well, else why not; it must not block.

    A check may have a warning beside it, which is asked the same way and fails nothing: the server does its work, and somebody
    should know what is wrong nevertheless. `ping` is always there, and for readiness `shutdown`, which fails from
    `begin_shutdown` on.
    """

    _livez: dict[str, Check] = field(default_factory=dict)
    _readyz: dict[str, Check] = field(default_factory=dict)
    _warnings: dict[str, Check] = field(default_factory=dict)
    _shutting_down: bool = False

    def __post_init__(self) -> None:
        self.add("ping", lambda: None)
        self.add("shutdown", lambda: "process is shutting down" if self._shutting_down else None, livez=False)

    def add(self, name: str, check: Check, *, livez: bool = True, readyz: bool = True, warning: Check | None = None) -> None:
        """Add or replace a check. What a restart would not mend is no matter of liveness: `livez=False`."""
        if warning is not None:
            self._warnings[name] = warning
        if livez:
            self._livez[name] = check
        if readyz:
            self._readyz[name] = check

    def begin_shutdown(self) -> None:
        self._shutting_down = True

    def of(self, endpoint: str) -> dict[str, Check]:
        """The checks of `livez`, `readyz` or `healthz`; the last is the old name of liveness."""
        return self._readyz if endpoint == "readyz" else self._livez

    def warning(self, name: str) -> str | None:
        check = self._warnings.get(name)
        return check() if check is not None else None

    def report(self, endpoint: str, *, verbose: bool, excluded: Iterable[str]) -> tuple[bool, str]:
        """Whether all checks pass, and the body that says so."""
        unknown = set(excluded)
        lines: list[str] = []
        failures: dict[str, str] = {}
        for name, check in self.of(endpoint).items():
            if name in unknown:
                lines.append(f"[+]{name} excluded: ok\n")
            elif why := check():
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


def version_info(version: str) -> dict[str, str]:
    """What `/version` says: Kubernetes' Info. `version` is our own, which semantic versioning lets follow the plus sign."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{KUBERNETES_VERSION}+aggserver-{version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",  # clients parse it; a build that can be reproduced has no date
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{platform.system().lower()}/{_go_architecture(platform.machine())}",
    }


def edges(checks: HealthChecks, metrics: Metrics, paths: Callable[[], Iterable[str]], version: str) -> ASGIApp:
    """The application. `paths` lists what else is served, for the index; `version` is the server's own."""
    info = _raw_json(version_info(version))
    own = ["/healthz", "/livez", "/metrics", "/readyz", "/version"]

    async def summary(request: Request) -> Response:
        endpoint = request.url.path.strip("/")
        query = request.query_params
        healthy, body = checks.report(endpoint, verbose="verbose" in query, excluded=query.getlist("exclude"))
        return Response(body, 200 if healthy else 500, TEXT_HEADERS)

    async def single(request: Request) -> Response:
        check = checks.of(request.url.path.split("/")[1]).get(request.path_params["check"])
        if check is None:
            return await index(request)
        if why := check():
            return Response(f"internal server error: {why}\n", 500, TEXT_HEADERS)
        warning = checks.warning(request.path_params["check"])
        return Response(f"ok, with a warning: {warning}\n" if warning else "ok", 200, TEXT_HEADERS)

    async def index(request: Request) -> Response:
        known = request.url.path in ("/", "/index.html")
        listed = {*own, *paths(), *(f"/{one}/{name}" for one in ("healthz", "livez", "readyz") for name in checks.of(one))}
        return _json(_raw_json({"paths": sorted(listed)}), 200 if known else 404)

    async def show_version(_: Request) -> Response:
        return _json(info)

    async def show_metrics(_: Request) -> Response:
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    routes = [Route("/version", show_version), Route("/version/", show_version), Route("/metrics", show_metrics)]
    for endpoint in ("healthz", "livez", "readyz"):
        routes += [Route(f"/{endpoint}", summary), Route(f"/{endpoint}/", summary), Route(f"/{endpoint}/{{check:path}}", single)]
    app: ASGIApp = Starlette(routes=[*routes, Route("/{rest:path}", index)])
    return app


def _raw_json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode()


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, {"Content-Type": "application/json"})


def _go_architecture(machine: str) -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)

"""The paths that belong to no API: `/healthz`, `/livez`, `/readyz`, `/metrics`, `/metrics/slis`, `/version` and the index at `/`.

`application` makes one ASGI application of them, which handles every path that belongs neither to a resource nor to discovery.
Bodies are byte for byte those of kube-apiserver, because load balancers, kubelets and scripts match on them.
Source: k8s.io/apiserver pkg/server/healthz/healthz.go, pkg/server/routes/{index,version}.go, v0.36.3.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aggserver.endpoints.request import ASGIApp
from aggserver.monitoring.catalog import CONTENT_TYPE
from aggserver.monitoring.health import HealthChecks
from aggserver.monitoring.metrics import Metrics

__all__ = ["application", "version_info"]

# The release whose behaviour is served. kubectl compares it with its own and warns past one minor version of skew.
KUBERNETES_VERSION = "1.36.3"

# The media type of Prometheus' text format, as Go's library writes it.
_TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

TEXT_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


def version_info(version: str) -> dict[str, str]:
    """The object served at `/version`, Kubernetes' version.Info. version: aggserver's own; it follows the plus sign."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        # The values of a server that emulates no other release, and can read the objects that the release before has stored.
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{KUBERNETES_VERSION}+aggserver-{version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",  # clients parse it; reproducible builds have no date
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{platform.system().lower()}/{_go_architecture(platform.machine())}",
    }


def application(checks: HealthChecks, metrics: Metrics, paths: Callable[[], Iterable[str]], version: str) -> ASGIApp:
    """The ASGI application. paths: returns the other paths that are served, for the index. version: aggserver's own."""
    info = _raw_json(version_info(version))
    own = ["/healthz", "/livez", "/metrics", "/metrics/slis", "/readyz", "/version"]

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

    async def show_slis(_: Request) -> Response:
        return Response(checks.exposition(), headers={"Content-Type": _TEXT_FORMAT})

    routes = [Route("/version", show_version), Route("/version/", show_version)]
    routes += [Route("/metrics", show_metrics), Route("/metrics/slis", show_slis)]
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

"""--tracing-config-file: a TracingConfiguration, as kube-apiserver takes it.

    apiVersion: apiserver.config.k8s.io/v1
    kind: TracingConfiguration
    endpoint: localhost:4317
    samplingRatePerMillion: 100

It is read at the start, and refused with file and field. OpenTelemetry is imported here first, since it is an extra.
Source: k8s.io/apiserver pkg/server/options/tracing.go, k8s.io/component-base tracing/api/v1/config.go, v0.36.3.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from aggserver.app.errors import StartError
from aggserver.meta.yaml_text import YAMLTextError, decode
from aggserver.tracing.tracer import MILLION, Tracer

__all__ = ["TracingConfiguration", "open_tracer", "read_configuration"]

_FLAG = "--tracing-config-file"
_VERSIONS = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_KIND = "TracingConfiguration"
_MEMBERS = {"apiVersion", "kind", "endpoint", "samplingRatePerMillion"}
_DEFAULT_ENDPOINT = "localhost:4317"
# gRPC's names for what an address is; upstream takes these.
_SCHEMES = ("dns", "unix", "unix-abstract")


class TracingConfiguration(NamedTuple):
    endpoint: str = _DEFAULT_ENDPOINT
    sampling_rate_per_million: int = 0


def read_configuration(path: Path) -> TracingConfiguration:
    """Raises StartError."""
    try:
        found = decode(path.read_bytes())[0]
    except OSError as error:
        raise StartError(f"{_FLAG}: can't read {path}: {error.strerror}") from None
    except YAMLTextError as error:
        raise StartError(f"{_FLAG}: {path}: {error}") from None
    try:
        return _configuration(found)
    except ValueError as error:
        raise StartError(f"{_FLAG}: {path}: {error}") from None


def _configuration(found: Any) -> TracingConfiguration:
    if not isinstance(found, dict) or found.get("kind") != _KIND or found.get("apiVersion") not in _VERSIONS:
        raise ValueError(f"must be a {_KIND} of {', '.join(_VERSIONS)}")
    if unknown := sorted(map(str, found.keys() - _MEMBERS)):
        raise ValueError(f'strict decoding error: unknown field "{unknown[0]}"')
    rate, endpoint = found.get("samplingRatePerMillion"), found.get("endpoint")
    rate, endpoint = 0 if rate is None else rate, _DEFAULT_ENDPOINT if endpoint is None else endpoint
    if type(rate) is not int:
        raise ValueError("samplingRatePerMillion: must be an integer")
    if not isinstance(endpoint, str):
        raise ValueError("endpoint: must be a string")
    if rate < 0:
        raise ValueError(f"samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive")
    if rate > MILLION:
        why = "sampling rate per million must be less than or equal to one million"
        raise ValueError(f"samplingRatePerMillion: Invalid value: {rate}: {why}")
    _check_endpoint(endpoint)
    return TracingConfiguration(endpoint or _DEFAULT_ENDPOINT, rate)


def _check_endpoint(endpoint: str) -> None:
    """As upstream, which takes gRPC's targets. Those without `//` are host and port."""
    try:
        scheme = urlsplit(endpoint if "//" in endpoint else f"dns://{endpoint}").scheme
    except ValueError as error:
        raise ValueError(f'endpoint: Invalid value: "{endpoint}": {error}') from None
    if scheme not in _SCHEMES:
        options = "Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
        raise ValueError(f'endpoint: Invalid value: "{endpoint}": unsupported scheme: {scheme}.  {options}')


@contextmanager
def open_tracer(path: Path | None, version: str, new_id: Callable[[], str]) -> Iterator[Tracer | None]:
    """The tracer that the file configures, None without the flag. Raises StartError."""
    if path is None:
        yield None
        return
    configuration = read_configuration(path)
    try:
        from aggserver.tracing.export import Exporter
    except ImportError as error:
        raise StartError(f"{_FLAG} needs OpenTelemetry, an extra: pip install 'aggserver[otel]' ({error})") from None
    exporter = Exporter(configuration.endpoint, version, new_id())
    try:
        yield Tracer(configuration.sampling_rate_per_million, os.urandom, exporter.export)
    finally:
        exporter.close()

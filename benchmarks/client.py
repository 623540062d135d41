"""Builds and runs the load client, and reads its results.

Also has the plain requests that prepare a server for it (definition, namespaces).
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["Access", "LoadError", "NotServedError", "build", "call", "run_load", "wait_until_served"]

MODULE = Path(__file__).parent / "load"

# Seconds: the longest run is seeding 400,000 objects, some minutes on a slow disk.
RUN_TIMEOUT = 1800.0
# The longest request is the first list of 500,000 objects after a start, some ten seconds on a slow disk.
CALL_TIMEOUT = 300.0
ESTABLISH_TIMEOUT = 60.0

UNSUPPORTED_MEDIA_TYPE = 415


class LoadError(RuntimeError):
    """A run without a result, because a request or the client failed."""


class NotServedError(LoadError):
    """The server does not implement this kind of request, so its row stays empty."""


@dataclass(frozen=True)
class Access:
    """The address and credentials of a server: its base URL, and PEM files."""

    server: str
    authority: Path
    certificate: Path
    key: Path


def build(folder: Path, say: Callable[[str], None], module: Path = MODULE) -> Path:
    """Compile the load client, or another program, into `folder`; returns its path. Raises LoadError, ToolchainError."""
    go = go_command(module / "go.mod", say)
    target = folder / module.name
    command = [go, "build", "-o", str(target), "."]
    done = subprocess.run(command, cwd=module, env=go_environment(os.environ), capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadError(f"building {module.name} failed:\n{done.stderr}")
    return target


def run_load(binary: Path, access: Access, flags: Mapping[str, str | int]) -> dict[str, Any]:
    """Run one workload and return what the client printed (`result` in benchmarks/load/requests.go).

    Raises NotServedError on 415, LoadError on any other failed request.
    """
    own = {"server": access.server, "ca": access.authority, "cert": access.certificate, "key": access.key}
    command = [str(binary), *(f"-{name}={value}" for name, value in (own | dict(flags)).items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT, check=False)
    if not done.stdout.strip():
        raise LoadError(done.stderr.strip() or f"the load client ended with {done.returncode} and said nothing")
    result: dict[str, Any] = json.loads(done.stdout)
    if result["errors"]:
        kind = NotServedError if result.get("first_error_status") == UNSUPPORTED_MEDIA_TYPE else LoadError
        raise kind(result["first_error"])
    return result


def call(access: Access, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
    """One request with a JSON body; returns the answer's body. Raises urllib.error.HTTPError for what is not 2xx."""
    context = ssl.create_default_context(cafile=str(access.authority))
    context.load_cert_chain(access.certificate, access.key)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(access.server + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, context=context, timeout=CALL_TIMEOUT) as answer:
        content: bytes = answer.read()
    return content


def wait_until_served(access: Access, path: str) -> None:
    """Wait until a GET of `path` succeeds: a definition is served a moment after it is accepted. Raises LoadError."""
    deadline = time.monotonic() + ESTABLISH_TIMEOUT
    while True:
        try:
            call(access, "GET", path)
        except urllib.error.HTTPError as error:
            if time.monotonic() > deadline:
                raise LoadError(f"{access.server}{path} is not served after {ESTABLISH_TIMEOUT:.0f} s: {error}") from error
            time.sleep(0.05)
        else:
            return

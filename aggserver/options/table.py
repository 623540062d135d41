"""The table of options: each field of `Options` is one option, and its metadata holds the flag's name, type, default and help.

The modules beside this one have the options of one topic each. Flags that k8s.io/apiserver also has keep its names, syntax and
defaults. Fields have their unit in the name.
Source: k8s.io/apiserver pkg/server/options, v0.36.3.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from aggserver.options.access import AccessOptions
from aggserver.options.admission import AdmissionOptions
from aggserver.options.audit import AuditOptions
from aggserver.options.cluster import ClusterOptions
from aggserver.options.controllers import ControllerOptions
from aggserver.options.debugging import DebuggingOptions
from aggserver.options.flag import Flag
from aggserver.options.limits import LimitOptions
from aggserver.options.serving import ServingOptions
from aggserver.options.storage import StorageOptions
from aggserver.options.tools import ToolOptions

__all__ = ["FLAGS", "WITH_COMMAND", "Options"]

# Defaults of `aggserver dev -- COMMAND`, by field. Such a server runs for one command only: it takes a free port so as not to
# collide with another, starts empty, and logs little so that the command's output stays readable.
WITH_COMMAND = {"secure_port": 0, "data": ":memory:", "log_level": "warning"}

# In the order of the help.
_TOPICS = (
    ServingOptions,
    StorageOptions,
    ClusterOptions,
    AccessOptions,
    AdmissionOptions,
    ControllerOptions,
    LimitOptions,
    AuditOptions,
    DebuggingOptions,
    ToolOptions,
)


@dataclass(frozen=True, kw_only=True)
class Options(
    ServingOptions,
    StorageOptions,
    ClusterOptions,
    AccessOptions,
    AdmissionOptions,
    ControllerOptions,
    LimitOptions,
    AuditOptions,
    DebuggingOptions,
    ToolOptions,
):
    """The value of every option, or its default. An empty string or None means that it is not set. Durations are in seconds."""

    command: str
    # The command of `aggserver dev -- COMMAND`; empty to serve until stopped.
    run: tuple[str, ...] = ()


FLAGS: dict[str, Flag] = {
    field.name: field.metadata["flag"] for topic in _TOPICS for field in dataclasses.fields(topic) if "flag" in field.metadata
}
"""Each option by the name of its field in Options."""

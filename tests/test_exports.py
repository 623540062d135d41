"""The public names. To add one is a feature and to remove one is a break: either way this list is changed in the same commit."""

from __future__ import annotations

import pydoc
from types import ModuleType

import pytest

import aggserver
from aggserver import cel, testing

PUBLIC = {
    aggserver: [
        *(
            "AlreadyExists",
            "App",
            "Bookmark",
            "Changed",
            "Column",
            "Conflict",
            "Doc",
            "Event",
            "Expired",
            "Extra",
            "FieldError",
            "Forbidden",
            "Format",
            "Ge",
            "Gone",
        ),
        *(
            "Gt",
            "Int32",
            "IntOrString",
            "Invalid",
            "JSONName",
            "Le",
            "ListRequest",
            "Lt",
            "MapKey",
            "MaxLen",
            "Metadata",
            "MetricRequest",
        ),
        *(
            "MinLen",
            "MultipleOf",
            "NodeUsage",
            "NotFound",
            "Page",
            "Pattern",
            "PodUsage",
            "Quantity",
            "Relist",
            "Request",
            "Rule",
            "Sample",
            "Scale",
        ),
        *("StatusError", "Stored", "Unavailable", "Usage", "Virtual", "WatchRequest", "__version__"),
    ],
    cel: [
        *("CELError", "Checked", "CompileError", "CostExceeded", "Duration", "Environment", "EvaluationError", "Objects"),
        *("Optional", "Program", "ProgramError", "Range", "SizeEstimator", "Timestamp", "Type", "TypeProvider", "Uint"),
        *("check", "compile_program", "estimate"),
    ],
    testing: ["AppClient", "AppClients", "AppEvent", "Server", "ServerError", "SyncClient", "check_source", "server_fixture"],
}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_names(module: ModuleType) -> None:
    assert sorted(module.__all__) == PUBLIC[module]
    assert all(hasattr(module, name) for name in PUBLIC[module])


def test_help_has_all_names() -> None:
    """Although each is loaded at its first use."""
    told = pydoc.render_doc(aggserver, renderer=pydoc.plaintext)
    assert [name for name in PUBLIC[aggserver] if name not in told] == ["__version__"]

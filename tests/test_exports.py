"""The public names. To add one is a feature and to remove one is a break: either way this list is changed in the same commit."""

from __future__ import annotations

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
            "FieldError",
            "Forbidden",
            "Gone",
            "Int32",
            "IntOrString",
        ),
        *(
            "Invalid",
            "ListRequest",
            "MapKey",
            "Metadata",
            "MetricRequest",
            "NodeUsage",
            "NotFound",
            "Page",
            "PodUsage",
            "Quantity",
        ),
        *(
            "Relist",
            "Request",
            "Sample",
            "StatusError",
            "Stored",
            "Unavailable",
            "Usage",
            "Virtual",
            "WatchRequest",
            "__version__",
        ),
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

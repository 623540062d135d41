"""PodResizeValidator."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.plugins.pod_resize import resize_problem

NODE = {
    "metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}},
    "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}},
}
WINDOWS = {"metadata": {"name": "n", "labels": {"kubernetes.io/os": "windows"}}}
FULL = "node didn't have enough allocatable resources: "

CASES: dict[str, tuple[Any, Any, str, str]] = {
    # node, spec without containers of one request each, message, cause
    "fits": (NODE, {"cpu": "2", "memory": "1Gi"}, "", ""),
    "too much CPU": (NODE, {"cpu": "2001m"}, f"{FULL}cpu, requested: 2001, allocatable: 2000", "NodeCapacity"),
    "too much of both": (
        NODE,
        {"cpu": "3", "memory": "1025Mi"},
        f"{FULL}cpu, requested: 3000, allocatable: 2000; memory, requested: 1074790400, allocatable: 1073741824",
        "NodeCapacity",
    ),
    "other resources": (NODE, {"example.com/x": "5"}, "", ""),
    "no labels": ({"metadata": {"name": "n"}}, {"cpu": "1"}, f"{FULL}cpu, requested: 1000, allocatable: 0", "NodeCapacity"),
    "Windows": (WINDOWS, {}, 'pod resize is only supported on linux nodes, node "n" is "windows"', "UnsupportedPlatform"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_container(name: str) -> None:
    node, requests, message, cause = CASES[name]
    found = resize_problem({"spec": {"containers": [{"resources": {"requests": requests}}]}}, node)
    assert found == ((message, cause) if message else None)


def test_a_whole_pod_and_its_overhead() -> None:
    spec = {"containers": [], "resources": {"requests": {"cpu": "1500m"}}}
    assert resize_problem({"spec": spec}, NODE) is None
    assert resize_problem({"spec": {**spec, "overhead": {"cpu": "600m"}}}, NODE) is not None

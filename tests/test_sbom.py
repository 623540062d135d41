"""requirements/sbom.py: what of an environment and of Debian gets into the bill of materials."""

from __future__ import annotations

import runpy
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

BILL = runpy.run_path(str(Path(__file__).parents[1] / "requirements" / "sbom.py"))["bill"]

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12+deb13u1
Description: GNU C Library
 of several lines

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


@pytest.fixture
def bill(tmp_path: Path) -> dict[str, Any]:
    for name, metadata in {
        "aggserver": (
            'License-Expression: Apache-2.0\nProvides-Extra: etcd\nRequires-Dist: b>=1; extra == "etcd"\nRequires-Dist: none'
        ),
        "b": 'Requires-Dist: c; sys_platform == "nowhere"\nClassifier: License :: OSI Approved :: MIT License\nLicense: as said',
        "c": "License: BSD",
    }.items():
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0+x\nSummary: s\n{metadata}\n")
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID=debian\nVERSION_ID="13"\n')
    found = {name: PathDistribution(tmp_path / f"{name}-1.0.dist-info") for name in ("aggserver", "b", "c")}
    document: dict[str, Any] = BILL(found, tmp_path)
    return document


def test_what_is_installed_is_listed_once(bill: dict[str, Any]) -> None:
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/aggserver@1.0%2Bx"
    urls = [each["purl"] for each in bill["components"]]
    assert urls[:2] == ["pkg:pypi/b@1.0%2Bx", "pkg:pypi/c@1.0%2Bx"]
    assert urls[2].startswith("pkg:generic/python@")
    assert urls[3:] == ["pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64&distro=debian-13"]


def test_dependencies_are_those_that_hold_here(bill: dict[str, Any]) -> None:
    needs = {each["ref"].split("/")[1][0]: [ref.split("/")[1][0] for ref in each["dependsOn"]] for each in bill["dependencies"]}
    assert needs == {"a": ["b"], "b": [], "c": []}


def test_licences_are_as_declared(bill: dict[str, Any]) -> None:
    b, c = bill["components"][:2]
    assert bill["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert (b["licenses"], c["licenses"]) == ([{"license": {"name": "MIT License"}}], [{"license": {"name": "BSD"}}])

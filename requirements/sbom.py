"""The bill of materials of the image, as CycloneDX 1.6 in JSON: `python sbom.py ENVIRONMENT [ROOT]` prints it.

What is in it is what is installed: the distributions in the environment's site-packages, this Python, and the Debian packages
below ROOT (/). It has no time and no serial number, so that the same image has the same bill. The Dockerfile runs it with the
Python of its build stage, where `packaging` is there for hatchling.
Source: CycloneDX 1.6 (ECMA-424), the package URL types pypi, deb and generic, deb-control(5).
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageMetadata, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = "aggserver"


def bill(installed: Mapping[str, Distribution], root: Path) -> dict[str, Any]:
    """The document. installed: by canonical name, `aggserver` among them."""
    components = {name: _of_python(name, found) for name, found in installed.items()}
    ours = components.pop(OURS) | {"type": "application"}
    python = {
        "type": "platform",
        "bom-ref": f"pkg:generic/python@{platform.python_version()}",
        "name": "python",
        "version": platform.python_version(),
        "purl": f"pkg:generic/python@{platform.python_version()}",
    }
    debian = list(_debian(root))
    references = {name: component["bom-ref"] for name, component in (*components.items(), (OURS, ours))}
    needs = [
        {"ref": references[name], "dependsOn": [references[needed] for needed in sorted(_needed(found, installed))]}
        for name, found in sorted(installed.items())
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": ours},
        "components": [*(components[name] for name in sorted(components)), python, *debian],
        "dependencies": needs,
    }


def _of_python(name: str, found: Distribution) -> dict[str, Any]:
    reference = f"pkg:pypi/{name}@{quote(found.version)}"
    component = {"type": "library", "bom-ref": reference, "name": name, "version": found.version, "purl": reference}
    if summary := found.metadata.get("Summary"):
        component["description"] = summary
    return component | {"licenses": licences} if (licences := _licences(found.metadata)) else component


def _licences(metadata: PackageMetadata) -> list[dict[str, Any]]:
    """As the distribution declares them: an SPDX expression, or else the names of its classifiers, or else its words."""
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier") or () if each.startswith("License :: ")]
    words = [line for line in [(metadata.get("License") or "").strip()] if line and "\n" not in line]
    return [{"license": {"name": name}} for name in classifiers or words]


def _needed(found: Distribution, installed: Mapping[str, Distribution]) -> set[str]:
    """What a distribution needs of what is installed, with any of its extras."""
    extras = ["", *(found.metadata.get_all("Provides-Extra") or ())]
    needed = set()
    for text in found.requires or ():
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name in installed and (marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)):
            needed.add(str(name))
    return needed - {canonicalize_name(found.name)}


def _debian(root: Path) -> Iterator[dict[str, Any]]:
    """The installed packages of Debian; none where dpkg has no records."""
    status = root / "var" / "lib" / "dpkg" / "status"
    release = root / "etc" / "os-release"
    if not status.exists():
        return
    settings = dict(re.findall(r'^(\w+)="?([^"\n]*)', release.read_text(), re.MULTILINE))
    distribution = f"{settings['ID']}-{settings['VERSION_ID']}" if "VERSION_ID" in settings else settings["ID"]
    for paragraph in status.read_text().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        url = f"pkg:deb/{settings['ID']}/{quote(name)}@{quote(version)}?arch={fields['Architecture']}&distro={distribution}"
        yield {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


def main(environment: str, root: str = "/") -> None:
    folders = [str(path) for path in Path(environment).glob("lib/python3*/site-packages")]
    if not folders:
        raise SystemExit(f"{environment} is no environment: it has no lib/python3*/site-packages")
    installed = {str(canonicalize_name(found.name)): found for found in distributions(path=folders)}
    if OURS not in installed:
        raise SystemExit(f"{environment} has no {OURS}")
    print(json.dumps(bill(installed, Path(root)), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])

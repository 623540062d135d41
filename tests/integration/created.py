"""What kube-apiserver returns for the objects of tests/cases/kinds/given.yaml when they are created, without keeping them.

Also what it warns of for those of warned.yaml. `python -m tests.integration.created KUBECONFIG` writes created.yaml and
warnings.yaml there anew. `tests/kinds/test_defaults.py` and `test_warnings.py` hold our modules to these files, and
`test_created.py` the files to kube-apiserver.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.cases.kind_objects import CREATED, NOW, WARNINGS, api_version, given, is_namespaced, warned
from tests.integration.raw import Client

__all__ = ["collection", "created", "warned_of"]

_HEAD = """\
# What kube-apiserver returns for the objects of given.yaml when they are created, made by `python -m tests.integration.created`.
# Without managedFields and what is new each time; UID stands for the object's uid, the year 2000 for the time of the request.
"""
# The text of a warning is quoted.
_WARNING = re.compile(r'299 - ("(?:[^"\\]|\\.)*")')
_VOLATILE = ("managedFields", "uid", "creationTimestamp")


def created(client: Client) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Type, name and answer, or the Status where the object is refused."""
    for type_name, name, obj in given():
        body = json.dumps(obj).encode()
        path = f"{collection(type_name, obj['metadata'].get('namespace', ''))}?dryRun=All"
        answer = client.request("POST", path, {"content-type": "application/json", "accept": "application/json"}, body)
        yield type_name, name, _lasting(json.loads(answer.body), obj)


def warned_of(client: Client) -> dict[str, dict[str, list[str]]]:
    """The texts of Warning headers, as `tests.cases.kind_objects.warnings` reads them."""
    found: dict[str, dict[str, list[str]]] = {}
    for type_name, name, obj in warned():
        path = f"{collection(type_name, obj['metadata'].get('namespace', ''))}?dryRun=All"
        answer = client.request("POST", path, {"content-type": "application/json"}, json.dumps(obj).encode())
        assert answer.status == 201, answer.body
        texts = _WARNING.findall(answer.header("warning"))
        found.setdefault(type_name, {})[name] = [json.loads(text) for text in texts]
    return found


def collection(type_name: str, namespace: str) -> str:
    """The path of all objects of a type in a namespace."""
    kind = type_name.partition(".")[2]
    plural = kind.lower()
    if kind.endswith("ss"):
        plural += "es"
    elif kind.endswith("y"):
        plural = plural[:-1] + "ies"
    elif not kind.endswith("s"):
        plural += "s"
    version = api_version(type_name)
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if is_namespaced(type_name) else f"{root}/{plural}"


def _lasting(answer: dict[str, Any], obj: Mapping[str, Any]) -> dict[str, Any]:
    """Without what differs from request to request, and without the effects of the ServiceAccount plugin on pods, which
    kube-apiserver as the tests of operators start it does not have."""
    metadata = answer.get("metadata", {})
    uid, now = metadata.get("uid"), metadata.get("creationTimestamp")
    answer = json.loads(json.dumps(answer).replace(f'"{uid}"', '"UID"').replace(f'"{now}"', f'"{NOW}"'))
    for name in _VOLATILE:
        answer.get("metadata", {}).pop(name, None)
    if answer["kind"] == "CertificateSigningRequest":
        answer["spec"].pop("extra", None)  # has the hash of the client's certificate
    elif answer["kind"] == "Pod":
        if not {"serviceAccount", "serviceAccountName"} & set(obj["spec"]):
            for name in ("serviceAccount", "serviceAccountName"):
                answer["spec"].pop(name, None)
        _without_tokens(answer["spec"])
    elif answer["kind"] == "Service":
        # Allocated.
        for name in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
            if name in answer["spec"] and answer["spec"][name] not in ("None", ["None"]):
                del answer["spec"][name]
        for port in answer["spec"].get("ports", ()):
            port.pop("nodePort", None)
    return answer


def _without_tokens(spec: dict[str, Any]) -> None:
    def is_token(each: Mapping[str, Any]) -> bool:
        return bool(each["name"].startswith("kube-api-access-"))

    for holder, member in (
        (spec, "volumes"),
        *((each, "volumeMounts") for each in spec["containers"] + spec.get("initContainers", [])),
    ):
        kept = [each for each in holder.get(member, ()) if not is_token(each)]
        if kept:
            holder[member] = kept
        else:
            holder.pop(member, None)


def _write(client: Client) -> None:
    lines: list[str] = []
    before = ""
    for type_name, name, answer in created(client):
        if answer["kind"] == "Status":
            sys.exit(f"{type_name} {name}: {answer['message']}")
        if type_name != before:
            lines.append(f"{type_name}:\n")
            before = type_name
        lines.append(f"  {name}: {json.dumps(answer, sort_keys=True)}\n")
    CREATED.write_text(_HEAD + "".join(lines))
    lines = ["# What kube-apiserver warns of for the objects of warned.yaml, made by `python -m tests.integration.created`.\n"]
    for type_name, found in warned_of(client).items():
        lines.append(f"{type_name}:\n")
        lines += [f"  {name}: {json.dumps(texts)}\n" for name, texts in found.items()]
    WARNINGS.write_text("".join(lines))


if __name__ == "__main__":
    with Client(Path(sys.argv[1])) as made:
        _write(made)

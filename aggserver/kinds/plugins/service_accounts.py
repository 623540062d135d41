"""ServiceAccount: the account of a Pod, the volume with its token, and the Secrets with which its images are pulled.

A Pod that names no account gets `default`. A controller makes that in each new namespace, so the plugin waits for it a while, as
upstream does. Mirror Pods, which a kubelet makes, are not changed, and may use neither accounts nor Secrets.
Source: k8s.io/kubernetes plugin/pkg/admission/serviceaccount/admission.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aggserver.kinds.references import is_mirror, secret_names
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.scheme.object_meta import generate_name

__all__ = ["FindAccount", "check_secrets", "give_account", "mirror_problem", "needed_account"]

_DEFAULT = "default"
_ENFORCED = "kubernetes.io/enforce-mountable-secrets"
_VOLUME = "kube-api-access-"
_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_SECONDS = 3607
"""Upstream's lifetime of a token in Pods: a little more than an hour, by which its tokens are told from others."""
_CONTAINERS = ("initContainers", "containers")
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
# How often, and how long, to wait for the account `default` of a new namespace; upstream waits up to 1.8 seconds.
_TRIES = 40
_PAUSE = 0.05

# (namespace, name) -> the account, or None.
FindAccount = Callable[[str, str], Awaitable[JSONObject | None]]


async def needed_account(
    find: FindAccount, namespace: str, name: str, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
) -> JSONObject | str:
    """The account of a Pod, or why there is none, as the text of a refusal."""
    found = await find(namespace, name)
    for _ in range(_TRIES if name == _DEFAULT else 0):
        if found is not None:
            break
        await sleep(_PAUSE)
        found = await find(namespace, name)
    if found is None:
        return f"error looking up service account {namespace}/{name}: serviceaccount {quote(name)} not found"
    return found


def mirror_problem(pod: JSONMapping) -> str | None:
    """Why a mirror Pod is refused, '' if it is not; None for other Pods."""
    if not is_mirror(pod):
        return None
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if any(secret_names(spec)):
        return "a mirror pod may not reference secrets"
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def name_of(pod: JSONMapping) -> str:
    """The name of the Pod's account."""
    return str(pod["spec"].get("serviceAccountName") or _DEFAULT)


def give_account(pod: JSONObject, account: JSONMapping, random: Callable[[int], int]) -> None:
    """Set the account of a Pod, mount its token, and set its Secrets for images. random: an integer in [0, argument)."""
    spec = pod["spec"]
    spec["serviceAccountName"] = spec["serviceAccount"] = name_of(pod)
    if _mounts_token(spec, account):
        _mount_token(spec, random)
    secrets = account.get("imagePullSecrets")
    if not spec.get("imagePullSecrets") and secrets:
        spec["imagePullSecrets"] = [dict(each) for each in secrets]


def _mounts_token(spec: JSONMapping, account: JSONMapping) -> bool:
    for chooser in (spec, account):
        if (chosen := chooser.get("automountServiceAccountToken")) is not None:
            return bool(chosen)
    return True


def _mount_token(spec: JSONObject, random: Callable[[int], int]) -> None:
    names = (str(volume.get("name") or "") for volume in spec.get("volumes") or ())
    own = next((name for name in names if name.startswith(_VOLUME)), "")
    name = own or generate_name(_VOLUME, random)
    is_needed = False
    for container in (each for member in _CONTAINERS for each in spec.get(member) or ()):
        mounts = container.get("volumeMounts") or []
        if all(mount.get("mountPath") != _PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _PATH}]
            is_needed = True
    if is_needed and not own:
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": _projected()}]


def _projected() -> JSONObject:
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [field]}},
        ],
    }


def check_secrets(spec: JSONMapping, account: JSONMapping, *, ephemeral: bool = False) -> str:
    """Why the Pod may not use one of its Secrets, if its account is annotated so that it may only use some; '' if it may.

    ephemeral: check only the ephemeral containers.
    """
    annotations = account["metadata"].get("annotations") or {}
    if annotations.get(_ENFORCED) not in _TRUE:
        return ""
    allowed = {each.get("name") or "" for each in account.get("secrets") or ()}
    end = f"is not allowed because service account {account['metadata']['name']} does not reference that secret"
    if ephemeral:
        return _refused_variable("ephemeral container", spec.get("ephemeralContainers") or (), allowed, end)
    for volume in spec.get("volumes") or ():
        if (source := volume.get("secret")) is not None and (name := source.get("secretName") or "") not in allowed:
            return f'volume with secret.secretName="{name}" {end}'
    for kind, member in (("init container", "initContainers"), ("container", "containers")):
        if why := _refused_variable(kind, spec.get(member) or (), allowed, end):
            return why
    pulling = {each.get("name") or "" for each in account.get("imagePullSecrets") or ()}
    for index, each in enumerate(spec.get("imagePullSecrets") or ()):
        if (name := each.get("name") or "") not in pulling:
            end = f"service account {account['metadata']['name']} does not reference that imagePullSecret"
            return f'imagePullSecrets[{index}].name="{name}" is not allowed because {end}'
    return ""


def _refused_variable(kind: str, containers: Any, allowed: set[str], end: str) -> str:
    for container in containers:
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None and (name := reference.get("name") or "") not in allowed:
                where = f"{kind} {container.get('name')} with envVar {variable.get('name')}"
                return f'{where} referencing secret.secretName="{name}" {end}'
        for source in container.get("envFrom") or ():
            if (reference := source.get("secretRef")) is not None and (name := reference.get("name") or "") not in allowed:
                return f'{kind} {container.get("name")} with envFrom referencing secret.secretName="{name}" {end}'
    return ""

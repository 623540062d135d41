"""--admission-control-config-file: the credentials with which the webhook plugins call webhooks.

The file is an AdmissionConfiguration, which has a configuration for each plugin, or names a file with it. The configuration of
the webhook plugins names a kubeconfig. Configurations of plugins that this server does not have are ignored, so that a file for
kube-apiserver can be used. Everything is read once, at the start, except files with tokens.
Source: k8s.io/apiserver pkg/admission/config.go, pkg/admission/plugin/webhook/config/kubeconfig.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aggserver.app.errors import StartError
from aggserver.meta.yaml_text import YAMLTextError, decode
from aggserver.options import ADMISSION_PLUGINS
from aggserver.webhook.identities import Identities

__all__ = ["read_identities"]

_FLAG = "--admission-control-config-file"
_WEBHOOKS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
# (apiVersion, kind) of the two kinds of configuration, in all versions that upstream knows.
_CONFIGURATIONS = (
    ("apiserver.config.k8s.io/v1", "AdmissionConfiguration"),
    ("apiserver.k8s.io/v1alpha1", "AdmissionConfiguration"),
)
_OF_WEBHOOKS = (
    ("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration"),
    ("apiserver.config.k8s.io/v1alpha1", "WebhookAdmission"),
)


def read_identities(path: Path | None) -> dict[str, Identities]:
    """The identities by name of the webhook plugin. path: of the file, None without the flag. Raises StartError."""
    found = {plugin: Identities({}) for plugin in _WEBHOOKS}
    if path is None:
        return found
    try:
        configuration = _typed(_decoded(path), _CONFIGURATIONS, {"plugins"})
        for plugin in configuration.get("plugins") or ():
            name = plugin.get("name")
            if unknown := plugin.keys() - {"name", "path", "configuration"}:
                raise ValueError(f'unknown field "plugins[].{min(unknown)}"')
            if name in _WEBHOOKS:
                found[name] = _identities(_of_plugin(plugin, path.parent))
            elif name in ADMISSION_PLUGINS and _of_plugin(plugin, path.parent) is not None:
                raise ValueError(f"a configuration of {name} is not supported")
    except OSError as error:
        where = error.filename or path
        raise StartError(f'{_FLAG}: unable to read admission control configuration from "{where}" [{error.strerror}]') from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StartError(f"{_FLAG}: failed to read plugin config: {error}") from None
    return found


def _of_plugin(plugin: Mapping[str, Any], folder: Path) -> Any:
    """The configuration of a plugin, None if there is none. folder: of the file, for relative paths."""
    if plugin.get("configuration") is not None:
        return plugin["configuration"]
    return _decoded(folder / plugin["path"]) if plugin.get("path") else None


def _identities(configuration: Any) -> Identities:
    if configuration is None:
        return Identities({})
    known = _typed(configuration, _OF_WEBHOOKS, {"kubeConfigFile"})
    name = known.get("kubeConfigFile") or ""
    if not name:
        return Identities({})
    path = Path(name)
    if not path.is_absolute():
        raise ValueError(f'kubeConfigFile: Invalid value: "{name}": must be an absolute file path')
    return Identities.of_kubeconfig(_decoded(path), path.parent)


def _decoded(path: Path) -> Any:
    try:
        return decode(path.read_bytes())[0]
    except YAMLTextError as error:
        raise ValueError(f"{path}: {error}") from None


def _typed(found: Any, kinds: tuple[tuple[str, str], ...], members: set[str]) -> Mapping[str, Any]:
    """Check that the value is of one of the kinds and has only these members, and return it. Raises ValueError."""
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) not in kinds:
        raise ValueError(f"must be {' or '.join(f'{kind} of {version}' for version, kind in kinds)}")
    if unknown := found.keys() - {"apiVersion", "kind"} - members:
        raise ValueError(f'strict decoding error: unknown field "{min(unknown)}"')
    return found

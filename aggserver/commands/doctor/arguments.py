"""The options of the server in a Deployment, read by the server's own parser, so that what it refuses is known. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from aggserver.meta.json_types import JSONMapping
from aggserver.options import Options, OptionsError, parse

__all__ = ["DeployedOptions", "container_of", "options_of"]

# The kubelet's: $(NAME) is the variable's value, $$(NAME) is text.
_REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_][A-Za-z0-9_]*)\)")

# In place of a value that only the pod knows, since it is in a Secret or a ConfigMap.
_UNKNOWN = "https://only-the-pod-knows:1"


class DeployedOptions(NamedTuple):
    """options: None if they are not known. problem: why the server refuses them, '' if it does not."""

    options: Options | None
    problem: str = ""


def container_of(template: JSONMapping) -> JSONMapping | None:
    """The container of a pod template that runs `aggserver serve`."""
    for each in template["spec"].get("containers") or ():
        if "serve" in (*(each.get("command") or ()), *(each.get("args") or ())):
            found: JSONMapping = each
            return found
    return None


def options_of(template: JSONMapping, namespace: str) -> DeployedOptions:
    """The options of a pod template's server. With --config they are in a file of the image, and not known."""
    container = container_of(template)
    if container is None:
        return DeployedOptions(None)
    environment, unknown = _environment(container, namespace)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    words = [_REFERENCE.sub(lambda found: environment.get(found[1], found[0]), word) for word in words]
    words = words[words.index("serve") :]
    if any(word == "--config" or word.startswith("--config=") for word in words) or "AGGSERVER_CONFIG" in environment:
        return DeployedOptions(None)
    try:
        return DeployedOptions(parse(words, environment))
    except OptionsError as error:
        hidden = any(variable in str(error) for variable in unknown)
        return DeployedOptions(None, "" if hidden else str(error))
    except SystemExit:  # --help
        return DeployedOptions(None)


def _environment(container: JSONMapping, namespace: str) -> tuple[Mapping[str, str], frozenset[str]]:
    """The container's variables, and the names of those whose values are not known."""
    values: dict[str, str] = {}
    unknown = set()
    for each in container.get("env") or ():
        name = str(each["name"])
        field = ((each.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        if "value" in each:
            values[name] = str(each["value"])
        elif field == "metadata.namespace":
            values[name] = namespace
        else:
            values[name] = _UNKNOWN
            unknown.add(name)
    return values, frozenset(unknown)

"""`aggserver manifests`: prints what a cluster needs to run an App, as YAML for `kubectl apply -f -`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from aggserver.commands.manifests.objects import Installation, objects
from aggserver.endpoints.served import Served
from aggserver.errors import AggserverError
from aggserver.meta import codec
from aggserver.options import Options
from aggserver.resources.needs import Need
from aggserver.scheme import object_meta

__all__ = ["UnfitNameError", "run"]


class UnfitNameError(AggserverError):
    """The module's name can't be that of a Service, or --namespace that of a namespace. The text says which."""

    exit_status = 2


def run(
    options: Options,
    served: Iterable[Served],
    say: Callable[[str], None],
    *,
    runs_tasks: bool,
    is_stored: bool,
    needs: Sequence[Need],
) -> None:
    """Prints the objects. served: what a server of the Apps has. runs_tasks: whether they have tasks. needs: the rights that they
    declare.

    is_stored: whether something is kept, though the objects themselves may be elsewhere. Raises UnfitNameError.
    """
    own = [each for each in served if not each.built_in]
    name = options.apps[0].partition(":")[0].rpartition(".")[2].lower().replace("_", "-")
    if problems := object_meta.dns1035_label(name):
        raise UnfitNameError(f"{options.apps[0]}: the Service can't be named {name!r}, after the module: {problems[0]}")
    namespace = options.namespace or f"{name}-system"
    if problems := object_meta.dns1123_label(namespace):
        raise UnfitNameError(f"--namespace {namespace!r}: {problems[0]}")
    installation = Installation(
        name=name,
        namespace=namespace,
        image=options.image,
        apps=options.apps,
        offered=[(each.info.group, each.resource) for each in own],
        is_stored=is_stored or any(each.in_storage for each in own),
        runs_tasks=runs_tasks,
        needs=needs,
    )
    for comment, obj in objects(installation):
        text = codec.dump_yaml(obj).decode().removesuffix("\n")
        say(f"---\n# {comment}\n{text}" if comment else f"---\n{text}")

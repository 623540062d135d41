"""Pruning and field managers for the server's own kinds, which have Go types in place of schemas.

Pure. Source: k8s.io/apiserver pkg/endpoints/installer.go; GetResetFields of each kind's strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aggserver.merge import fieldset, go_types
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.managers import no_other_version
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.rewriting import rewrite
from aggserver.scheme.types import lookup

__all__ = ["conformer", "own_fields"]


def conformer(type_name: str) -> Callable[[JSONObject], list[str]]:
    """A function that does what upstream's typed decoder and encoder do (`scheme/rewriting.py`).

    It returns the paths of unknown fields, and raises 400 for fields of the wrong type.

    type_name: in the tables of `scheme/`.
    """
    version = type_name.rpartition(".")[0].rpartition("/")[2]

    def conform(obj: JSONObject) -> list[str]:
        of = lookup(type_name)
        if why := decode_error(obj, of):
            raise errors.bad_request(f'{of.short_name} in version "{version}" cannot be handled as a {of.short_name}: {why}')
        return rewrite(obj, of)

    return conform


def own_fields(info: ResourceInfo, type_name: str, subresource: str = "", *, resets: Sequence[str] = ()) -> FieldManager:
    """The field manager of one endpoint. type_name: in the tables of `scheme/`. resets: top-level fields it can't write."""
    return FieldManager(
        info.api_version,
        info.kind,
        lambda api_version: go_types.of_type(type_name),
        no_other_version,
        subresource,
        {info.api_version: {fieldset.field(name): {} for name in resets}} if resets else {},
        lambda: go_types.zero(type_name),
    )

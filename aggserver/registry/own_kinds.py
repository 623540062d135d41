"""What the server's own kinds have in place of a schema: a Go type, which says what a body may hold and who can own what.

Pure. Source: k8s.io/apiserver pkg/endpoints/installer.go; GetResetFields of each kind's strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aggserver.merge import fieldset, kinds
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.managers import no_other_version
from aggserver.meta import errors
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.scheme import form
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = ["conformer", "own_fields"]


def conformer(type_name: str) -> Callable[[JSONObject], list[str]]:
    """As upstream's decoder: members of a wrong type are refused, unknown ones dropped.

    type_name: in the tables of `scheme/`. The function returns the paths that it dropped, and raises 400.
    """

    def conform(obj: JSONObject) -> list[str]:
        of = lookup(type_name)
        if why := decode_error(obj, of) or ", ".join(map(str, form.problems(obj, of, Path()))):
            raise errors.bad_request(f'{of.short_name} in version "v1" cannot be handled as a {of.short_name}: {why}')
        return form.prune(obj, of)

    return conform


def own_fields(info: ResourceInfo, type_name: str, subresource: str = "", *, resets: Sequence[str] = ()) -> FieldManager:
    """type_name: of the objects, in the tables of `scheme/`. resets: top-level fields that this endpoint keeps as they are."""
    return FieldManager(
        info.api_version,
        info.kind,
        lambda api_version: kinds.of_type(type_name),
        no_other_version,
        subresource,
        {info.api_version: {fieldset.field(name): {} for name in resets}} if resets else {},
    )

"""The errors that users' functions raise, and the Status that a client gets for each.

All other exceptions of a function are faults of its code: the client gets 500 without a word of them, and the log the traceback.
Source: k8s.io/apimachinery pkg/api/errors/errors.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.errors import AggserverError
from aggserver.meta import errors, field
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo

__all__ = [
    "AlreadyExists",
    "AnswerError",
    "Conflict",
    "DeclarationError",
    "Expired",
    "FieldError",
    "Forbidden",
    "Invalid",
    "NotFound",
    "Unavailable",
    "named",
    "public",
]


class NotFound(StatusError):
    """There is no such object: 404."""

    def __init__(self, message: str = "") -> None:
        super().__init__(404, "NotFound", message)


class AlreadyExists(StatusError):
    """An object of that name is there already: 409. If the name was generated, another one is tried."""

    def __init__(self, message: str = "") -> None:
        super().__init__(409, "AlreadyExists", message)


class Conflict(StatusError):
    """Somebody else has changed the object since it was read: the write is made anew from the newest state, else 409."""

    def __init__(self, message: str = "") -> None:
        super().__init__(409, "Conflict", message)


class Expired(StatusError):
    """A revision or a cursor is too old for the source to go on from there: 410, and the client lists anew."""

    def __init__(self, message: str = "") -> None:
        super().__init__(410, "Expired", message or "the source does not go back that far any more; list again")


class Forbidden(StatusError):
    """The user may not do that: 403. message: why, for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(403, "Forbidden", message)


class Unavailable(StatusError):
    """It can't be done or known at present: 503. retry_after: seconds after which clients try again by themselves."""

    def __init__(self, message: str, retry_after: float = 1) -> None:
        super().__init__(503, "ServiceUnavailable", message, retry_after=max(1, round(retry_after)))


class AnswerError(AggserverError):
    """A function has returned what it must not: the client gets 500, and the log this text, which names the function."""


_NO_VALUE: Any = object()


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field. path: as in JSON, `.spec.ports[2].name`. message: for the user. value: what it is now; an
    error without a value reads `Forbidden: ` and the message, as kube-apiserver's for a field that must not be set.
    """

    path: str
    message: str
    value: Any = _NO_VALUE

    def as_core(self) -> field.FieldError:
        where = field.Path(self.path.removeprefix("."))
        if self.value is _NO_VALUE:
            return field.forbidden(where, self.message)
        return field.invalid(where, self.value, self.message)


class Invalid(StatusError):
    """Fields of the object are wrong: 422, with a cause for each."""

    def __init__(self, *problems: FieldError) -> None:
        super().__init__(422, "Invalid", "; ".join(f"{each.path}: {each.message}" for each in problems))
        self.problems: Iterable[FieldError] = problems


def named(error: StatusError, info: ResourceInfo, name: str) -> StatusError:
    """The error with the resource and the object in it, in Kubernetes' words; others than those above as they are."""
    group, resource, said = info.group, info.resource, error.message
    if error.kind:
        return error  # it names an object already, perhaps another one
    if isinstance(error, NotFound):
        return errors.not_found(group, resource, name)
    if isinstance(error, AlreadyExists):
        return errors.already_exists(group, resource, name)
    if isinstance(error, Conflict):
        return errors.conflict(group, resource, name, said or "the object has been modified; please apply your changes anew")
    if isinstance(error, Forbidden):
        return errors.forbidden(group, resource, name, said)
    if isinstance(error, Invalid):
        return errors.invalid(group, info.kind, name, [each.as_core() for each in error.problems])
    return error


def public(error: StatusError) -> StatusError:
    """The answer of the server to a request of users' code, as one of the classes above, with all that the Status says."""
    known = _BY_REASON.get(error.reason)
    if known is None or isinstance(error, known):
        return error
    made = known.__new__(known)
    StatusError.__init__(
        made,
        error.code,
        error.reason,
        error.message,
        name=error.name,
        group=error.group,
        kind=error.kind,
        causes=error.causes,
        retry_after=error.retry_after,
        bare_details=error.bare_details,
    )
    if isinstance(made, Invalid):
        made.problems = [FieldError(each.field, each.message) for each in error.causes]
    return made


_BY_REASON: Mapping[str, type[StatusError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Expired,
    "Forbidden": Forbidden,
    "Invalid": Invalid,
    "ServiceUnavailable": Unavailable,
}


class DeclarationError(AggserverError):
    """An App can't be served as it is declared. The text has the file and the line."""

    exit_status = 2

"""Authorization checks in expressions: what is asked, what the answers give, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.cel import Environment, EvaluationError, check, compile_program
from aggserver.cel.library.authz import Authorizer, Check, Decision, ResourceCheck
from aggserver.cel.types import object_type

ENVIRONMENT = Environment(
    {
        "authorizer": object_type("kubernetes.authorization.Authorizer"),
        "authorizer.requestResource": object_type("kubernetes.authorization.ResourceCheck"),
    }
)

# An expression, and what it asks.
ASKED = {
    "a resource": (
        "authorizer.group('apps').resource('deployments').check('get').allowed()",
        Check(None, "get", group="apps", resource="deployments"),
    ),
    "all parts of a resource": (
        "authorizer.group('').resource('pods').subresource('log').namespace('n').name('m').check('get').allowed()",
        Check(None, "get", resource="pods", subresource="log", namespace="n", name="m"),
    ),
    "the last of two names": (
        "authorizer.group('').resource('pods').name('a').name('b').check('get').allowed()",
        Check(None, "get", resource="pods", name="b"),
    ),
    "selectors": (
        "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c').check('list').allowed()",
        Check(None, "list", resource="pods", field_selector="a=b", label_selector="c"),
    ),
    "a path": ("authorizer.path('/healthz').check('get').allowed()", Check(None, "get", "/healthz")),
    "a service account": (
        "authorizer.serviceAccount('n', 'robot').path('x').check('get').allowed()",
        Check(("n", "robot"), "get", "x"),
    ),
    "the resource of the request": (
        "authorizer.requestResource.check('create').allowed()",
        Check(None, "create", group="g", resource="ships", namespace="there"),
    ),
}

# An expression, and its value where everything is denied with a reason, or its error.
VALUES: dict[str, tuple[str, Any]] = {
    "denied": ("authorizer.path('x').check('get').allowed()", False),
    "the reason": ("authorizer.path('x').check('get').reason()", "because"),
    "no error": ("authorizer.path('x').check('get').errored()", False),
    "an error": ("authorizer.path('broken').check('get').errored()", True),
    "its text": ("authorizer.path('broken').check('get').error()", "no answer"),
    "no text": ("authorizer.path('x').check('get').error()", ""),
    "an empty path": ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
    "an empty resource": ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
    "no name of a service account": (
        "authorizer.serviceAccount('n', 'Not!').path('x').check('get').allowed()",
        "Invalid service account name",
    ),
    "no namespace of a service account": (
        "authorizer.serviceAccount('a.b', 'c').path('x').check('get').allowed()",
        "Invalid service account namespace",
    ),
    "comparison": ("authorizer.path('x') == authorizer.path('x')", "no such overload"),
}


def values(asked: list[Check]) -> dict[str, Any]:
    def decide(check: Check) -> Decision:
        asked.append(check)
        return Decision(False, error="no answer") if check.path == "broken" else Decision(False, "because")

    authorizer = Authorizer(decide)
    return {"authorizer": authorizer, "authorizer.requestResource": ResourceCheck(authorizer, "g", "ships", namespace="there")}


@pytest.mark.parametrize(("source", "wanted"), ASKED.values(), ids=ASKED)
def test_asked(source: str, wanted: Check) -> None:
    asked: list[Check] = []
    value, cost = compile_program(check(source, ENVIRONMENT))(values(asked), 1_000_000)
    assert (value, asked) == (False, [wanted])
    assert cost > 350_000


@pytest.mark.parametrize(("source", "wanted"), VALUES.values(), ids=VALUES)
def test_values(source: str, wanted: Any) -> None:
    program = compile_program(check(source, ENVIRONMENT))
    if isinstance(wanted, str) and not source.endswith(("reason()", "error()")):
        with pytest.raises(EvaluationError, match=f"^{wanted}$"):
            program(values([]), 1_000_000)
    else:
        assert program(values([]), 1_000_000)[0] == wanted


def test_what_decide_raises_ends_the_evaluation() -> None:
    """Neither `||` nor `exists` go on when the answer is not known yet."""

    class NotYet(Exception):
        pass

    def decide(check: Check) -> Decision:
        raise NotYet

    source = "[1, 2].exists(i, authorizer.path('x').check('get').allowed() || true)"
    with pytest.raises(NotYet):
        compile_program(check(source, ENVIRONMENT))({"authorizer": Authorizer(decide)}, 1_000_000)


def test_the_cost_allows_two_checks() -> None:
    once = "authorizer.path('x').check('get').allowed()"
    with pytest.raises(Exception, match="actual cost limit exceeded"):
        compile_program(check(f"[{once}, {once}, {once}].all(x, !x)", ENVIRONMENT))(values([]), 1_000_000)

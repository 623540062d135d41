"""Checks of expressions, as the authorizer is asked."""

from __future__ import annotations

import pytest

from aggserver.app.policy_checks import policy_checks
from aggserver.authentication.user import UserInfo
from aggserver.authorization import attributes as authorization
from aggserver.authorization import delegating
from aggserver.cel.library.authz import Check
from aggserver.meta import errors
from tests.admission.policy.requests import USER, attributes

ROBOT = UserInfo("system:serviceaccount:n:robot", groups=("system:serviceaccounts", "system:serviceaccounts:n"))

CASES: dict[str, tuple[Check, authorization.Attributes]] = {
    "a path": (Check(None, "get", "/x"), authorization.Attributes(USER, "get", path="/x")),
    "a resource": (
        Check(None, "get", "", "g", "r", "s", "n", "a", "f=1", "l"),
        authorization.Attributes(USER, "get", "g", "*", "r", "s", "n", "a", field_selector="f=1", label_selector="l"),
    ),
    "of a service account": (
        Check(("n", "robot"), "get", "", "g", "r"),
        authorization.Attributes(ROBOT, "get", "g", "*", "r"),
    ),
}


class Asked:
    """Allows all that is about no path."""

    def __init__(self) -> None:
        self.asked: list[authorization.Attributes] = []

    async def authorize(self, attributes: authorization.Attributes) -> delegating.Decision:
        self.asked.append(attributes)
        if attributes.path == "/broken":
            raise errors.internal_error("no answer")
        return delegating.Decision(not attributes.path, "because")


@pytest.mark.parametrize(("check", "wanted"), CASES.values(), ids=CASES)
async def test_asked(check: Check, wanted: authorization.Attributes) -> None:
    authorizer = Asked()
    decision = await policy_checks(authorizer)(attributes(), check)
    assert authorizer.asked == [wanted]
    assert (decision.allowed, decision.reason, decision.error) == (not check.path, "because", "")


async def test_no_decision() -> None:
    decision = await policy_checks(Asked())(attributes(), Check(None, "get", "/broken"))
    assert (decision.allowed, decision.reason, decision.error) == (False, "", "Internal error occurred: no answer")

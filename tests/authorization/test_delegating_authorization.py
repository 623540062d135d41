from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import DelegatingAuthorizer, OpenPaths
from aggserver.authorization.standalone import StandaloneAuthorizer
from aggserver.cluster import ClusterError, Unreachable
from aggserver.meta.errors import StatusError
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster, status

PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ADMIN = UserInfo("admin", groups=("system:masters",))
JANE = UserInfo("jane", groups=("dev",))


def things(user: UserInfo = JANE, verb: str = "get", name: str = "x", **more: str) -> Attributes:
    return Attributes(user, verb, "g.io", "v1", "things", namespace="ns", name=name, **more)


class Reviews:
    """A fake API server for SubjectAccessReview: `verbs` are allowed, everything else is denied."""

    def __init__(self, *verbs: str) -> None:
        self.verbs = set(verbs)
        self.cluster = FakeCluster()
        self.clock = FakeClock()
        self.cluster.on("POST", PATH, self.answer)
        self.authorizer = DelegatingAuthorizer(self.cluster, clock=self.clock, sleep=self.clock.sleep, random=lambda: 0.0)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        verb = (body["spec"].get("resourceAttributes") or body["spec"]["nonResourceAttributes"])["verb"]
        allowed = verb in self.verbs
        return {**body, "status": {"allowed": allowed, "reason": "by the test" if allowed else "not today"}}

    @property
    def asked(self) -> int:
        return len(self.cluster.calls)


@pytest.mark.parametrize(
    ("paths", "path", "open_"),
    [
        pytest.param(["/healthz"], "/healthz", True, id="exact"),
        pytest.param(["healthz"], "/healthz", True, id="without the slash"),
        pytest.param(["/healthz"], "/healthz/etcd", False, id="exact is not a prefix"),
        pytest.param(["/healthz/*"], "/healthz/etcd", True, id="prefix"),
        pytest.param(["/healthz/*"], "/healthz", False, id="the prefix itself"),
        pytest.param(["/"], "/", True, id="root"),
        pytest.param(["/"], "/x", False, id="root is not everything"),
        pytest.param(["*"], "/x", True, id="everything"),
        pytest.param([], "/", False, id="none"),
    ],
)
def test_open_paths(paths: list[str], path: str, open_: bool) -> None:
    assert (path in OpenPaths(paths)) is open_


def test_open_paths_refuse_stars_in_the_middle() -> None:
    with pytest.raises(ValueError, match=r'only trailing \* allowed in "a\*b"'):
        OpenPaths(["/a*b"])


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(things(ADMIN, "delete"), id="system:masters"),
        pytest.param(Attributes(JANE, "get", path="/readyz"), id="health"),
    ],
)
async def test_always_allowed_without_asking(attributes: Attributes) -> None:
    reviews = Reviews()
    assert (await reviews.authorizer.authorize(attributes)).allowed
    assert (await StandaloneAuthorizer().authorize(attributes)).allowed
    assert reviews.asked == 0


async def test_an_open_path_is_no_resource() -> None:
    reviews = Reviews()
    attributes = things(path="/healthz")
    assert not (await reviews.authorizer.authorize(attributes)).allowed


async def test_answers_hold_for_ten_seconds() -> None:
    reviews = Reviews("get")
    for expected in (2, 2, 4):
        assert await reviews.authorizer.authorize(things()) == (True, "by the test")
        assert await reviews.authorizer.authorize(things(verb="delete")) == (False, "not today")
        assert reviews.asked == expected
        reviews.clock.advance(5.0)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(things(UserInfo("joe", groups=("dev",))), id="name"),
        pytest.param(things(UserInfo("jane", "1", ("dev",))), id="uid"),
        pytest.param(things(UserInfo("jane", groups=("dev", "ops"))), id="groups"),
        pytest.param(things(UserInfo("jane", groups=("dev",), extra={"k": ("v",)})), id="extra"),
        pytest.param(things(name="y"), id="object"),
        pytest.param(things(label_selector="a=b"), id="selector"),
    ],
)
async def test_another_question_is_asked(other: Attributes) -> None:
    reviews = Reviews("get")
    await reviews.authorizer.authorize(things())
    await reviews.authorizer.authorize(other)
    assert reviews.asked == 2


async def test_equal_questions_at_once_are_one() -> None:
    reviews = Reviews("get")
    extra = {"b": ("1",), "a": ("2",)}
    users = [UserInfo("jane", extra=extra), UserInfo("jane", extra=dict(sorted(extra.items())))]
    decisions = await asyncio.gather(*(reviews.authorizer.authorize(things(user)) for user in users * 5))
    assert all(decision.allowed for decision in decisions)
    assert reviews.asked == 1


async def test_overlong_questions_are_not_kept() -> None:
    reviews = Reviews("get")
    for _ in range(2):
        await reviews.authorizer.authorize(things(name="x" * 10_000))
    assert reviews.asked == 2


@pytest.mark.parametrize(
    ("error", "slept"),
    [
        pytest.param(status(500, "InternalError", "sick"), [0.5, 0.75, 1.125, 1.6875], id="sick"),
        pytest.param(status(403, "Forbidden", "may not ask"), [], id="not allowed to ask"),
        pytest.param(Unreachable("https://x: connection refused"), [], id="not there"),
    ],
)
async def test_no_answer_is_a_500_and_not_kept(error: ClusterError | Unreachable, slept: list[float]) -> None:
    reviews = Reviews("get")
    reviews.cluster.fail("POST", PATH, error, times=len(slept) + 1)
    with pytest.raises(StatusError) as caught:
        await reviews.authorizer.authorize(things())
    assert (caught.value.code, caught.value.reason) == (500, "InternalError")
    assert caught.value.message == f"Internal error occurred: the request could not be authorized: {error}"
    assert reviews.clock.slept == slept
    assert (await reviews.authorizer.authorize(things())).allowed


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param({"status": {"allowed": True, "denied": True}}, "both allow and deny", id="yes and no"),
        pytest.param({}, "has no status", id="nothing"),
    ],
)
async def test_nonsense_is_no_answer(answer: dict[str, Any], text: str) -> None:
    reviews = Reviews()
    reviews.cluster.on("POST", PATH, lambda _: answer)
    with pytest.raises(StatusError, match=text):
        await reviews.authorizer.authorize(things())


async def test_a_storm_of_questions_is_paced() -> None:
    reviews = Reviews("get")
    await asyncio.gather(*(reviews.authorizer.authorize(things(name=str(number))) for number in range(402)))
    assert reviews.asked == 402
    assert len(reviews.clock.slept) == 2

"""Jobs: validation of the restart policy and indexes in a spec, and of the status.

As upstream, most errors of the status are reported only if the members in question change, so that a controller can repair the
others.
Pure. Source: k8s.io/kubernetes pkg/apis/batch/validation/validation.go, pkg/registry/batch/job/strategy.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.meta import times
from aggserver.meta.field import OMITTED, FieldError, Path, RawJSON, duplicate, invalid, not_supported, required
from aggserver.meta.golang import quote, to_json
from aggserver.meta.json_types import JSONObject

__all__ = ["job_problems", "job_status_problems"]

_INDEXED = "Indexed"
_RESTARTS = ("OnFailure", "Never")
_MOST_PARALLEL = 100_000  # Pods at once of an Indexed Job
_MOST_FAILED = 100_000  # maxFailedIndexes
# With more completions than this and backoffLimitPerIndex, the most for parallelism and maxFailedIndexes.
_MANY_COMPLETIONS, _MOST_OF_MANY = 100_000, 10_000
_MAX_INT64_DIGITS = 19


def job_problems(spec: JSONObject, path: Path) -> list[FieldError]:
    """The errors of a spec beside those of `scheme.validation`. spec: of a Job, or of a CronJob's template."""
    found = list(_indexed(spec, path) if spec.get("completionMode") == _INDEXED else _not_indexed(spec, path))
    where = path.child("template", "spec", "restartPolicy")
    policy = (spec.get("template", {}).get("spec") or {}).get("restartPolicy") or "Always"
    if policy == "Always":
        found.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in _RESTARTS:
        found.append(not_supported(where, policy, list(_RESTARTS)))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        found.append(invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return found


def _indexed(spec: JSONObject, path: Path) -> Iterator[FieldError]:
    completions, parallelism, failed = (spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes"))
    if completions is None:
        yield required(path.child("completions"), f"when completion mode is {_INDEXED}")
    if parallelism is not None and parallelism > _MOST_PARALLEL:
        text = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is {_INDEXED}"
        yield invalid(path.child("parallelism"), parallelism, text)
    if failed is not None:
        if spec.get("backoffLimitPerIndex") is None:
            yield required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
        if completions is not None and failed > completions:
            yield invalid(path.child("maxFailedIndexes"), failed, "must be less than or equal to completions")
        if failed > _MOST_FAILED:
            yield invalid(path.child("maxFailedIndexes"), failed, f"must be less than or equal to {_MOST_FAILED}")
    if completions is not None and completions > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        if failed is None:
            text = f"must be specified when completions is above {_MANY_COMPLETIONS}"
            yield required(path.child("maxFailedIndexes"), text)
        when = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if value is not None and value > _MOST_OF_MANY:
                yield invalid(path.child(name), value, f"must be less than or equal to {_MOST_OF_MANY} {when}")


def _not_indexed(spec: JSONObject, path: Path) -> Iterator[FieldError]:
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
    for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(name) is not None:
            yield invalid(path.child(name), spec[name], "requires indexed completion mode")


# --- the status ---

_STATUS = Path("status")
_CONDITIONS = _STATUS.child("conditions")


class _State:
    """The spec and status of a Job, with the facts that the rules compare."""

    def __init__(self, job: JSONObject) -> None:
        self.spec: JSONObject = job.get("spec") or {}
        self.status: JSONObject = job.get("status") or {}
        stands = {(each.get("type"), each.get("status")) for each in self.status.get("conditions") or ()}
        self.complete, self.failed, self.failing, self.succeeded = (
            (name, "True") in stands for name in ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
        )
        self.finished = self.complete or self.failed
        self.suspended, self.resumed = ("Suspended", "True") in stands, ("Suspended", "False") in stands
        self.indexed = self.spec.get("completionMode") == _INDEXED
        self.uncounted: JSONObject = self.status.get("uncountedTerminatedPods") or {}

    def number(self, name: str) -> int:
        value: int = self.status.get(name) or 0
        return value

    def text(self, name: str) -> str | None:
        return self.status.get(name)


def job_status_problems(job: JSONObject, old: JSONObject) -> list[FieldError]:
    now, was = _State(job), _State(old)
    return [
        *_counts(now),
        *_times_and_conditions(now, was),
        *_indexes(now, was),
        *_pods(now, was),
        *_success(now),
        *_since(now, was),
    ]


def _counts(now: _State) -> Iterator[FieldError]:
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        if now.number(name) < 0:
            yield invalid(_STATUS.child(name), now.number(name), "must be greater than or equal to 0")
    seen = set[str]()
    for name in ("succeeded", "failed"):
        for index, uid in enumerate(now.uncounted.get(name) or ()):
            path = _STATUS.child("uncountedTerminatedPods", name).index(index)
            if not uid:
                yield invalid(path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(path, uid)
            seen.add(uid)


def _refused(text: str) -> FieldError:
    return invalid(_CONDITIONS, OMITTED, text)


def _times_and_conditions(now: _State, was: _State) -> Iterator[FieldError]:
    completes = now.complete != was.complete
    start, end = now.text("startTime"), now.text("completionTime")
    starts, ends = start != was.text("startTime"), end != was.text("completionTime")
    if (completes or now.failed != was.failed) and now.complete and now.failed:
        yield _refused("cannot set Complete=True and Failed=true conditions")
    if (completes or now.failing != was.failing) and now.complete and now.failing:
        yield _refused("cannot set Complete=True and FailureTarget=true conditions")
    path = _STATUS.child("completionTime")
    if (completes or ends) and end is not None and not now.complete:
        yield invalid(path, end, "cannot set completionTime when there is no Complete=True condition")
    if (completes or ends) and end is None and now.complete:
        yield required(path, "completionTime is required for Complete jobs")
    if (starts or ends) and start and end and times.parse_time(end) < times.parse_time(start):
        yield invalid(path, end, "must be equal to or after `startTime`")
    fails = now.failed != was.failed or now.text("failedIndexes") != was.text("failedIndexes")
    if fails and now.failed and not now.failing:
        yield _refused("cannot set Failed=True condition without the FailureTarget=true condition")
    if (completes or now.succeeded != was.succeeded) and now.complete and not now.succeeded:
        yield _refused("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    finishes = now.finished != was.finished
    if (finishes or now.number("active") != was.number("active")) and now.finished and now.number("active") > 0:
        yield invalid(_STATUS.child("active"), now.number("active"), "active>0 is invalid for finished job")
    nothing_to_do = now.spec.get("suspend") is True and now.spec.get("completions") == 0
    if (finishes or starts) and not nothing_to_do and now.finished and start is None:
        yield required(_STATUS.child("startTime"), "startTime is required for finished job")
    if (finishes or now.uncounted != was.uncounted) and now.finished and any(now.uncounted.values()):
        parts = ",".join(f'"{name.title()}":{to_json(now.uncounted.get(name) or None)}' for name in ("succeeded", "failed"))
        yield invalid(_STATUS.child("uncountedTerminatedPods"), RawJSON(f"{{{parts}}}"), "must be empty for finished job")


def _indexes(now: _State, was: _State) -> Iterator[FieldError]:
    completed, failed = now.text("completedIndexes") or "", now.text("failedIndexes")
    completes, fails = completed != (was.text("completedIndexes") or ""), failed != was.text("failedIndexes")
    completions, limit = now.spec.get("completions"), now.spec.get("backoffLimitPerIndex")
    of_completed, of_failed = _STATUS.child("completedIndexes"), _STATUS.child("failedIndexes")
    if completes and completions is not None and (problem := _format_problem(completed, completions)):
        yield invalid(of_completed, completed, f"error parsing completedIndexes: {problem}")
    if fails and completions is not None and limit is not None and (problem := _format_problem(failed or "", completions)):
        yield invalid(of_failed, failed, f"error parsing failedIndexes: {problem}")
    if completes and completed and not now.indexed:
        yield invalid(of_completed, completed, "cannot set non-empty completedIndexes when non-indexed completion mode")
    if fails and limit is None and failed is not None:
        yield invalid(of_failed, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
    if (fails or completes) and completions is not None and failed:
        overlap = _overlap(_intervals(completed, completions), _intervals(failed, completions))
        if overlap is not None:
            yield invalid(of_failed, failed, f"failedIndexes and completedIndexes overlap at index: {overlap}")


def _pods(now: _State, was: _State) -> Iterator[FieldError]:
    finishes = now.finished != was.finished
    terminating, ready = now.status.get("terminating"), now.status.get("ready")
    if (finishes or terminating != was.status.get("terminating")) and (terminating or 0) > 0 and now.finished:
        yield invalid(_STATUS.child("terminating"), terminating, "terminating>0 is invalid for finished job")
    changed = ready != was.status.get("ready") or now.number("active") != was.number("active")
    if changed and ready is not None and ready > now.number("active"):
        yield invalid(_STATUS.child("ready"), ready, "cannot set more ready pods than active")


def _success(now: _State) -> Iterator[FieldError]:
    if now.succeeded and now.failed:
        yield _refused("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if now.succeeded and now.failing:
        yield _refused("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if now.spec.get("successPolicy") is not None and now.complete and not now.succeeded:
        yield _refused("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _since(now: _State, was: _State) -> Iterator[FieldError]:
    """The errors that depend on the old status."""
    terminal = (("Failed", now.failed, was.failed), ("Complete", now.complete, was.complete))
    for name, stands, stood in (*terminal, ("FailureTarget", now.failing, was.failing)):
        if stood and not stands:
            yield _refused(f"cannot disable the terminal {name}=True condition")
    if now.number("failed") < was.number("failed"):
        yield invalid(_STATUS.child("failed"), now.number("failed"), "cannot decrease the failed counter")
    scales = now.indexed and now.spec.get("completions") == now.spec.get("parallelism")
    if not scales and now.number("succeeded") < was.number("succeeded"):
        yield invalid(_STATUS.child("succeeded"), now.number("succeeded"), "cannot decrease the succeeded counter")
    end, before = now.text("completionTime"), was.text("completionTime")
    if end is not None and before is not None and end != before:
        yield invalid(_STATUS.child("completionTime"), end, "field is immutable")
    start, before = now.text("startTime"), was.text("startTime")
    resumes = was.suspended and now.resumed
    if before is not None and start != before and not now.spec.get("suspend") and not resumes:
        yield invalid(_STATUS.child("startTime"), start, "field is immutable for unsuspended job once set")
    if was.succeeded and not now.succeeded:
        yield _refused("cannot disable the SuccessCriteriaMet=True condition")
    if was.complete and not was.succeeded and now.succeeded:
        yield _refused("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


# --- texts of indexes: `1,3-5,7` ---


def _format_problem(text: str, completions: int) -> str:
    last: int | None = None
    for part in text.split(",") if text else ():
        interval = _interval(part, completions)
        if isinstance(interval, str):
            return interval
        if last is not None and last >= interval[0]:
            return f"non-increasing order, previous: {last}, current: {interval[0]}"
        last = interval[1]
    return ""


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """The intervals in a text of indexes, without invalid ones."""
    found = (_interval(part, completions) for part in text.split(","))
    return [interval for interval in found if not isinstance(interval, str)]


def _interval(text: str, completions: int) -> tuple[int, int] | str:
    """The first and last index of an interval, or why it is invalid."""
    limits = text.split("-")
    if len(limits) > 2:
        rule = "the requirement that an index interval can have at most two parts separated by '-'"
        return f"the fragment {quote(text)} violates {rule}"
    ends: list[int] = []
    for limit in limits:
        digits = limit.removeprefix("+")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_INT64_DIGITS):
            return f"cannot convert string to integer for index: {quote(limit)}"
        if int(digits) >= completions:
            return f"too large index: {quote(limit)}"
        ends.append(int(digits))
    if len(ends) == 2 and ends[0] >= ends[1]:
        return f"non-increasing order, previous: {ends[0]}, current: {ends[1]}"
    return ends[0], ends[-1]


def _overlap(completed: list[tuple[int, int]], failed: list[tuple[int, int]]) -> int | None:
    """The first index in both lists of intervals, which must be sorted; None if there is none."""
    one = other = 0
    while one < len(completed) and other < len(failed):
        (start, end), (first, last) = completed[one], failed[other]
        if start <= last and first <= end:
            return max(start, first)
        if start <= first:
            one += 1
        else:
            other += 1
    return None

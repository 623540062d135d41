"""A sampled profile: stacks with their counts and times, and the two forms that tools read.

`pprof` is the gzipped protobuf of `go tool pprof`, `collapsed` the lines of flamegraph.pl, speedscope and others. Both name
functions and lines alone: no values of variables, which may be secrets.
Source: github.com/google/pprof proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType

from aggserver.meta.protobuf_wire import LENGTH, VARINT, tag, varint, with_length

__all__ = ["MAX_DEPTH", "MAX_STACKS", "Profile", "frames_of"]

# Distinct stacks that are kept, and frames of each, from the innermost on: some 20 MB of memory at most.
MAX_STACKS = 20_000
MAX_DEPTH = 128

Place = tuple[CodeType, int]

_BEYOND = "(stacks beyond the limit)"


def frames_of(frame: FrameType | None) -> tuple[Place, ...]:
    """(code, line) of each frame, the innermost first, at most MAX_DEPTH."""
    found: list[Place] = []
    while frame is not None and len(found) < MAX_DEPTH:
        found.append((frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno))
        frame = frame.f_back
    return tuple(found)


class Profile:
    """The samples of all threads. period: nanoseconds between two samples."""

    def __init__(self, period: int) -> None:
        self._period = period
        # (thread's name, stack) -> [samples, nanoseconds on a CPU]
        self._stacks: dict[tuple[str, tuple[Place, ...]], list[int]] = {}

    def add(self, thread: str, stack: tuple[Place, ...], cpu: int) -> None:
        """One sample. stack: the innermost frame first. cpu: nanoseconds that the thread had on a CPU since the last one."""
        key = (thread, stack)
        counts = self._stacks.get(key)
        if counts is None:
            if len(self._stacks) >= MAX_STACKS:
                key = (thread, ())
            counts = self._stacks.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] += cpu

    def collapsed(self) -> Iterator[str]:
        """A line for each stack that has used a CPU: `thread;outermost;...;innermost microseconds`."""
        for (thread, stack), (_, cpu) in self._stacks.items():
            if cpu >= 1000:
                names = [_plain(thread), *(_plain(f"{_file(code)}:{code.co_qualname}:{line}") for code, line in reversed(stack))]
                yield f"{';'.join(names if stack else [*names, _BEYOND])} {cpu // 1000}\n"

    def pprof(self, began: int, took: int) -> bytes:
        """The gzipped protobuf. began: nanoseconds since the epoch. took: nanoseconds."""
        return gzip.compress(_Encoder().profile(self._stacks, self._period, began, took), 6, mtime=0)


class _Encoder:
    """The tables of one message: strings, functions and locations are named by numbers."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[CodeType | None, int] = {}
        self._locations: dict[tuple[CodeType | None, int], int] = {}

    def profile(self, stacks: dict[tuple[str, tuple[Place, ...]], list[int]], period: int, began: int, took: int) -> bytes:
        types = [self._type("samples", "count"), self._type("cpu", "nanoseconds"), self._type("wall", "nanoseconds")]
        thread_key = self._string("thread")
        samples = []
        for (thread, stack), (count, cpu) in stacks.items():
            places: Iterable[tuple[CodeType | None, int]] = stack or ((None, 0),)
            label = _number(1, thread_key) + _number(2, self._string(thread))
            samples.append(
                _packed(1, [self._location(*place) for place in places])
                + _packed(2, [count, cpu, count * period])
                + _message(3, label)
            )
        default = self._string("cpu")
        functions = [self._function_message(code, number) for code, number in self._functions.items()]
        locations = [
            _number(1, number) + _message(4, _number(1, self._functions[code]) + _number(2, line))
            for (code, line), number in self._locations.items()
        ]
        parts = [_message(1, each) for each in types]
        parts += [_message(2, each) for each in samples]
        parts += [_message(4, each) for each in locations]
        parts += [_message(5, each) for each in functions]
        parts += [_message(6, text.encode("utf-8", "replace")) for text in self._strings]
        parts += [_number(9, began), _number(10, took), _message(11, types[1]), _number(12, period), _number(14, default)]
        return b"".join(parts)

    def _type(self, name: str, unit: str) -> bytes:
        return _number(1, self._string(name)) + _number(2, self._string(unit))

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _location(self, code: CodeType | None, line: int) -> int:
        self._functions.setdefault(code, len(self._functions) + 1)
        return self._locations.setdefault((code, line), len(self._locations) + 1)

    def _function_message(self, code: CodeType | None, number: int) -> bytes:
        name, file, line = (_BEYOND, "", 0) if code is None else (_name(code), code.co_filename, code.co_firstlineno)
        strings = _number(2, self._string(name)) + _number(3, self._string(name)) + _number(4, self._string(file))
        return _number(1, number) + strings + _number(5, line)


def _name(code: CodeType) -> str:
    return f"{_file(code).removesuffix('.py').replace('/', '.')}.{code.co_qualname}"


def _file(code: CodeType) -> str:
    """The file below the folder of packages, or of Python's own library."""
    return code.co_filename.rpartition("site-packages/")[2].rpartition("/lib/python")[2].rpartition("/aggserver/aggserver/")[2]


def _plain(text: str) -> str:
    """Without what separates frames and counts."""
    return text.replace(";", ",").replace(" ", "_").replace("\n", "_")


def _number(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value) if value else b""


def _message(field: int, content: bytes) -> bytes:
    return tag(field, LENGTH) + with_length(content)


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(varint, values)))

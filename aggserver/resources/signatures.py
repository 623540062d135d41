"""Signatures: whether a function can be called as it will be, told when it is declared and not with the first request."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from aggserver.resources.errors import DeclarationError

__all__ = ["check_call", "check_lifespan", "check_metric", "check_name", "check_seconds", "check_texts"]


def check_call(function: Any, what: str, *parameters: str, where: str = "", awaited: bool = True) -> None:
    """Raise DeclarationError if a function can't be called with these parameters, or is none.

    what: `the get function of sites.paas.example.com`. where: the place of the declaration, for what has no place of its own.
    awaited: whether it may be a coroutine function.
    """
    if not callable(function):
        raise DeclarationError(f"{where}: {what} is a function, not {type(function).__name__}")
    name = getattr(function, "__name__", type(function).__name__)
    place = _place(function) or where
    if not awaited and inspect.iscoroutinefunction(function):
        raise DeclarationError(f"{place}: {name} can't be {what}: it is a generator, with `yield`, and not a coroutine")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # one of C tells nothing of itself
    try:
        signature.bind(*parameters)
    except TypeError:
        own = ", ".join(signature.parameters)
        raise DeclarationError(f"{place}: {name}({own}) can't be {what}: it is called with ({', '.join(parameters)})") from None


def check_name(name: Any, example: str, where: str) -> None:
    """Raise DeclarationError if a decorator that takes a name got a function instead."""
    if not isinstance(name, str):
        raise DeclarationError(f"{where}: a name is missing: write {example}")


def check_metric(name: str, where: str) -> None:
    """Raise DeclarationError for a name that can't be a part of a path, as an autoscaler has it.

    Source: k8s.io/apimachinery pkg/api/validation/path/name.go (IsValidPathSegmentName), v0.36.3.
    """
    if not name or name in (".", "..") or "/" in name or "%" in name:
        raise DeclarationError(f"{where}: {name!r} can't be the name of a metric: it is a part of a path, without / and %")


def check_texts(given: Any, what: str, where: str) -> None:
    """Raise DeclarationError for one text where several are meant: it would be taken for its letters."""
    if isinstance(given, str):
        raise DeclarationError(f"{where}: {what} is a list: write {what}=[{given!r}]")


def check_seconds(given: Any, what: str, where: str) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0 or math.isnan(given):
        raise DeclarationError(f"{where}: {what} is a number above 0, not {given!r}")


def check_lifespan(lifespan: Any, where: str) -> None:
    """Raise DeclarationError for what is no function that makes an async context manager."""
    if isinstance(lifespan, AbstractAsyncContextManager):
        raise DeclarationError(f"{where}: a lifespan is a function: write App(name), without calling it")
    check_call(lifespan, "a lifespan", where=where)
    inner = inspect.unwrap(lifespan)
    if inspect.isgeneratorfunction(inner) or inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(lifespan):
        name = getattr(lifespan, "__name__", "it")
        says = f"{name} can't be a lifespan: write @asynccontextmanager above an `async def` with one `yield`"
        raise DeclarationError(f"{_place(lifespan) or where}: {says}")


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""

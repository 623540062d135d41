"""The texts for Warning headers of one request. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["Warnings"]


class Warnings:
    """What a client is warned of, in order. One request has one, which its handler, the registry and admission add to."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def append(self, text: str) -> None:
        self._texts.append(text)

    def extend(self, texts: Iterable[str]) -> None:
        self._texts.extend(texts)

    @contextmanager
    def attempt(self, *lost: type[Exception]) -> Iterator[None]:
        """Drop what is added within if it ends with one of the `lost` errors; the next attempt warns anew."""
        before, self._texts = self._texts, []
        try:
            yield
        except lost:
            self._texts = []
            raise
        finally:
            before += self._texts
            self._texts = before

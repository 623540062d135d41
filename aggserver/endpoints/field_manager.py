"""The name under which a request owns the fields that it writes, where it gives none.

Pure. Source: k8s.io/apiserver pkg/endpoints/handlers/create.go (managerOrUserAgent, prefixFromUserAgent), v0.36.3.
"""

from __future__ import annotations

__all__ = ["MAX_MANAGER_BYTES", "manager_of"]

MAX_MANAGER_BYTES = 128


def manager_of(user_agent: str) -> str:
    """The field manager of a request that names none: the user agent up to the first `/`, its printable characters, cut to fit.

    user_agent: as the header has it, one character for each byte.
    """
    before = user_agent.partition("/")[0]
    if len(before) <= MAX_MANAGER_BYTES and before.isascii() and before.isprintable():
        return before
    text = before.encode("latin-1").decode("utf-8", "replace")
    name = "".join(character for character in text if character.isprintable())
    while len(name.encode()) > MAX_MANAGER_BYTES:
        name = name[: min(len(name) - 1, MAX_MANAGER_BYTES)]
    return name

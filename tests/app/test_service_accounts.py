"""The keys of ServiceAccounts' tokens: those of flags, the server's own, and files that can't be used."""

from __future__ import annotations

import asyncio
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from aggserver.app.errors import StartError
from aggserver.app.service_accounts import ServiceAccounts
from aggserver.authentication import jws
from aggserver.authentication.service_accounts import Ref, issued
from aggserver.authentication.tokens import TokenError
from aggserver.errors import AggserverError
from aggserver.options import OptionsError, parse

NOW = 1_800_000_000.0
FIRST, SECOND = jws.new_key(), jws.new_key()


def accounts(folder: Path, *flags: str) -> ServiceAccounts:
    return ServiceAccounts(parse(["dev", *flags], {}), folder, lambda: NOW, lambda: "id")


def ids(made: ServiceAccounts) -> list[str]:
    return [key.key_id for key in asyncio.run(made.keys())]


def key_id(pem: bytes) -> str:
    return jws.signing_key(pem).public.key_id


def test_the_own_key(tmp_path: Path) -> None:
    """It is made when it is needed, once, and found at the next start."""
    made = accounts(tmp_path)
    assert list(tmp_path.iterdir()) == []

    async def twice() -> list[Any]:
        return list(await asyncio.gather(made.keys(), made.keys()))

    first, second = asyncio.run(twice())
    assert first == second
    assert len(first) == 1
    file = tmp_path / "service-account.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ids(accounts(tmp_path)) == [key_id(file.read_bytes())]


def test_the_keys_of_flags(tmp_path: Path) -> None:
    """The one that signs is accepted, too; no other is made."""
    (tmp_path / "first").write_bytes(FIRST)
    (tmp_path / "both").write_bytes(FIRST + SECOND)
    signing = f"--service-account-signing-key-file={tmp_path}/first"
    assert ids(accounts(tmp_path, signing)) == [key_id(FIRST)]
    assert ids(accounts(tmp_path, f"--service-account-key-file={tmp_path}/both", signing)) == [key_id(FIRST), key_id(SECOND)]
    assert {path.name for path in tmp_path.iterdir()} == {"first", "both"}


def test_keys_to_verify_with_beside_the_own(tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes(FIRST)
    known = ids(accounts(tmp_path, f"--service-account-key-file={tmp_path}/first"))
    assert known == [key_id(FIRST), key_id((tmp_path / "service-account.key").read_bytes())]


BAD = {
    "--service-account-key-file missing": "--service-account-key-file missing: No such file or directory",
    "--service-account-key-file garbage": (
        "--service-account-key-file garbage: data does not contain any valid RSA or ECDSA public keys"
    ),
    "--service-account-signing-key-file garbage": (
        "--service-account-signing-key-file garbage: data does not contain a valid RSA or ECDSA private key"
    ),
    "--service-account-signing-key-file .": "--service-account-signing-key-file .: Is a directory",
}


@pytest.mark.parametrize("flags", BAD)
def test_files_that_cannot_be_used(flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garbage").write_text("garbage")
    with pytest.raises(StartError) as caught:
        accounts(tmp_path, *flags.split())
    assert str(caught.value) == BAD[flags]


def test_an_own_key_that_is_broken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The server goes on without tokens, and says what to do."""
    (tmp_path / "service-account.key").write_text("secret words")
    made = accounts(tmp_path)
    with caplog.at_level(logging.ERROR), pytest.raises(TokenError, match="invalid bearer token"):
        asyncio.run(made.review("a.b.c"))
    why = "data does not contain a valid RSA or ECDSA private key; without the file, another key is made"
    [record] = caplog.records
    assert record.getMessage() == f"tokens of ServiceAccounts can't be verified: {tmp_path}/service-account.key: {why}"
    with pytest.raises(AggserverError):
        asyncio.run(made.keys())


def test_without_the_kinds(tmp_path: Path) -> None:
    """There are no ServiceAccounts, so no token is valid."""
    made = accounts(tmp_path)
    asyncio.run(made.keys())
    key = jws.signing_key((tmp_path / "service-account.key").read_bytes())
    claims = issued(made.issuers[0], "ns", Ref("bob", "1"), {}, made.audiences, now=NOW, seconds=600, warn_after=0, token_id="")
    with pytest.raises(TokenError, match='serviceaccounts "bob" not found'):
        asyncio.run(made.review(jws.sign(key, claims)))


DEFAULT = "https://kubernetes.default.svc.cluster.local"
NAMED = {
    # flags: (issuers, audiences)
    "": ((DEFAULT,), (DEFAULT,)),
    "--service-account-issuer https://a --service-account-issuer b,c": (("https://a", "b,c"), ("https://a", "b,c")),
    "--service-account-issuer https://a --api-audiences x,y": (("https://a",), ("x", "y")),
}


@pytest.mark.parametrize("flags", NAMED)
def test_issuers_and_audiences(flags: str, tmp_path: Path) -> None:
    made = accounts(tmp_path, *flags.split())
    assert (tuple(made.issuers), tuple(made.audiences)) == NAMED[flags]


REFUSED = {
    "--service-account-issuer=": "service-account-issuer should not be an empty string",
    "--service-account-issuer=a --service-account-issuer=a": 'service-account-issuer "a" is already specified',
    "--service-account-max-token-expiration=59m": (
        "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
    ),
}


@pytest.mark.parametrize("flags", REFUSED)
def test_options_that_are_refused(flags: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse(["dev", *flags.split()], {})
    assert str(caught.value) == REFUSED[flags]

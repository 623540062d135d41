"""The tokens of ServiceAccounts in `aggserver dev`: the keys and flags, and the parts that make and verify tokens with them.

Without flags the key is the server's own, made at its first use and kept in the data folder for the next start. The modules that
make and verify tokens are also imported then: many servers never see a token.
Source: k8s.io/kubernetes pkg/kubeapiserver/options/authentication.go, pkg/controlplane/apiserver/options/options.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aggserver import disk
from aggserver.app.errors import StartError
from aggserver.app.storage import files_last
from aggserver.authentication.tokens import TokenError
from aggserver.authentication.user import UserInfo
from aggserver.errors import AggserverError
from aggserver.meta import errors
from aggserver.options import Options
from aggserver.registry.rest import Context
from aggserver.registry.store import Store

if TYPE_CHECKING:
    from aggserver.authentication.account_tokens import AccountTokens, FoundAccount
    from aggserver.authentication.jws import SigningKey, VerifyingKey
    from aggserver.authentication.service_accounts import Name
    from aggserver.standalone.tokens import TokenRequests

__all__ = ["ServiceAccounts"]

log = logging.getLogger("aggserver.tokens")

# As kubeadm and kind set it.
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_KEY_FILE = "service-account.key"
_KEY, _SIGNING_KEY = "service-account-key-file", "service-account-signing-key-file"


class ServiceAccounts:
    """Makes and verifies tokens of ServiceAccounts. It is the authenticator's `tokens`.

    folder: of the server's own key. clock: seconds since the epoch. new_id: makes UUIDs. Raises StartError if a file of the flags
    can't be used.
    """

    def __init__(self, options: Options, folder: Path, clock: Callable[[], float], new_id: Callable[[], str]) -> None:
        self.issuers: Sequence[str] = options.service_account_issuers or (_ISSUER,)
        self.audiences: Sequence[str] = options.api_audiences or self.issuers
        self._options = options
        self._own_file = folder / _KEY_FILE
        self._clock = clock
        self._new_id = new_id
        self._stores: Callable[[str], Store] | None = None
        self._lock = asyncio.Lock()
        self._signing: SigningKey | None = None
        self._verifying: list[VerifyingKey] = []
        self._tokens: AccountTokens | None = None
        if options.service_account_key_files or options.service_account_signing_key_file is not None:
            self._read_files()

    def look_in(self, stores: Callable[[str], Store]) -> None:
        """Set where accounts are looked up. stores: returns the Store of a core resource by its plural, or raises KeyError."""
        self._stores = stores

    async def review(self, token: str) -> UserInfo:
        """The user of a bearer token. Raises TokenError."""
        try:
            tokens = await self.tokens()
        except AggserverError as error:
            log.error("tokens of ServiceAccounts can't be verified: %s", error)
            raise TokenError("invalid bearer token") from None
        user, _ = await tokens.review(token)
        return user

    async def tokens(self) -> AccountTokens:
        """The verifier of tokens. Raises FileError and KeyFileError if the server's own key can't be used."""
        if self._tokens is None:
            from aggserver.authentication.account_tokens import AccountTokens

            await self._key()
            self._tokens = AccountTokens(self._verifying, self.issuers, self.audiences, self._find, self._clock)
        return self._tokens

    async def keys(self) -> Sequence[VerifyingKey]:
        """The keys that tokens are verified with. Raises FileError and KeyFileError."""
        await self._key()
        return self._verifying

    def requests(self, _: Store) -> TokenRequests:
        """The subresource `serviceaccounts/token`. Call it after `look_in`."""
        from aggserver.standalone.tokens import Issuing, TokenRequests

        assert self._stores is not None
        longest = int(self._options.service_account_max_token_expiration_seconds)
        issuing = Issuing(self.issuers[0], self.audiences, longest, self.signing_key, self._new_id, self._clock)
        return TokenRequests(issuing, self._stores)

    async def signing_key(self) -> SigningKey:
        """The key that signs tokens. Raises StatusError 500 if the server's own key can't be used."""
        try:
            return await self._key()
        except AggserverError as error:
            log.error("tokens of ServiceAccounts can't be signed: %s", error)
            raise errors.internal_error(f"failed to generate token: {error}") from None

    async def _key(self) -> SigningKey:
        if self._signing is None:
            async with self._lock:
                if self._signing is None:
                    signing = await asyncio.to_thread(self._own_key)
                    self._verifying.append(signing.public)
                    self._signing = signing
        return self._signing

    def _own_key(self) -> SigningKey:
        """The server's own key, made if there is none. Raises FileError and KeyFileError."""
        from aggserver.authentication import jws

        with disk.file_errors():
            if not self._own_file.exists():
                disk.replace(self._own_file, jws.new_key(), lasting=files_last(self._options))
            content = self._own_file.read_bytes()
        try:
            return jws.signing_key(content)
        except jws.KeyFileError as error:
            raise jws.KeyFileError(f"{self._own_file}: {error}; without the file, another key is made") from None

    def _read_files(self) -> None:
        """Read the files that flags name. The signing key's tokens are accepted even if its public key is not among them."""
        from aggserver.authentication.jws import KeyFileError, signing_key, verifying_keys

        given = [(_KEY, Path(name)) for name in self._options.service_account_key_files]
        if (path := self._options.service_account_signing_key_file) is not None:
            given.append((_SIGNING_KEY, path))
        found: dict[str, VerifyingKey] = {}
        for flag, path in given:
            try:
                content = path.read_bytes()
                if flag == _SIGNING_KEY:
                    self._signing = signing_key(content)
                    keys = [self._signing.public]
                else:
                    keys = verifying_keys(content)
            except (OSError, KeyFileError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise StartError(f"--{flag} {path}: {why}") from None
            found |= {key.key_id: key for key in keys}
        self._verifying = list(found.values())

    async def _find(self, name: Name) -> FoundAccount | None:
        if self._stores is None:
            return None
        try:
            store = self._stores(name.resource)
        except KeyError:
            return None
        if (known := store.known(name.namespace, name.name)) is not None:
            return known
        return await store.find(Context(UserInfo("system:apiserver"), name.namespace), name.name)

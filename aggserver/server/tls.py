"""TLS: the SSLContext that a server listens with, whose certificates can be replaced while it listens.

`serving.py` takes one `context` from a `TLSConfig` at start. At any time `update` gives it a new serving certificate or new
client CAs: from files (`FileWatcher`), from the authentication ConfigMap, or, if the server makes its own certificates, from
`certificates/keeper.py`. New connections use them at once; open ones are not affected.

TLS 1.2 or newer; ALPN h2, then http/1.1. A client certificate is requested if there is a CA to check it with, but never required;
the union of all CAs is sent as a hint. Python can't request a certificate without verifying it, nor choose the purpose for which
it is verified. So the handshake fails for a certificate that no CA of the union signed, where kube-apiserver answers 401, and for
one whose only extended key usage is "any", which kube-apiserver accepts. Both are logged, because the client learns little.
Source: k8s.io/apiserver pkg/server/secure_serving.go and pkg/server/dynamiccertificates, v0.36.3.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aggserver import disk
from aggserver.authentication.x509 import CertificateError, PeerCertificate, Roots
from aggserver.errors import AggserverError

__all__ = ["FILE_POLL_SECONDS", "FileWatcher", "TLSConfig", "TLSError", "check_pair", "knew_all_cas", "peer_certificate"]

log = logging.getLogger(__name__)

# Seconds between polls. Upstream uses inotify, and also polls every minute. A stat of five files takes microseconds, so polling
# suffices; it also works where inotify does not (network file systems, bind mounts of single files).
FILE_POLL_SECONDS = 2.0

TLS_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

# From IANA's names, which Go and the flags of Kubernetes use, to OpenSSL's. As in Go, the suites of TLS 1.3 can't be chosen.
CIPHER_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
}
TLS13_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


# Seconds between two log lines about the same reason to refuse a certificate: anybody who connects can cause them.
REFUSAL_SECONDS = 60.0

# OpenSSL's X509_V_ERR_INVALID_PURPOSE.
INVALID_PURPOSE = 26


class TLSError(AggserverError):
    """TLS can't be served with these certificates or settings. The text is one line for the operator."""


class _Refusals:
    """Logs why handshakes refuse clients' certificates, each reason at most once in REFUSAL_SECONDS."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.failures = 0  # handshakes that have failed for any reason
        self._logged_at: dict[int, float] = {}  # time of the last log line, by OpenSSL's code; there are some eighty codes

    def note(self, error: ssl.SSLCertVerificationError) -> None:
        now = self._clock()
        if now - self._logged_at.get(error.verify_code, -REFUSAL_SECONDS) < REFUSAL_SECONDS:
            return
        self._logged_at[error.verify_code] = now
        hint = ": its extended key usage must have clientAuth" if error.verify_code == INVALID_PURPOSE else ""
        log.warning("a client's certificate was refused in the handshake: %s%s", error.verify_message, hint)


class _VerifyingContext(ssl.SSLContext):
    refusals: _Refusals


class _VerifyingObject(ssl.SSLObject):
    """One connection's TLS. It logs why a handshake failed, which asyncio and uvloop do not report.

    knew_all_cas: whether all client CAs were known when the handshake began.
    """

    knew_all_cas: bool

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise  # it goes on
        except ssl.SSLError as error:
            assert isinstance(self.context, _VerifyingContext)
            self.context.refusals.failures += 1
            if isinstance(error, ssl.SSLCertVerificationError):
                self.context.refusals.note(error)
            raise


class _DelegatingContext(ssl.SSLContext):
    """The context that the event loop keeps while it listens. Each handshake is done by the `current` context of that moment.

    asyncio and uvloop demand an SSLContext, and only call its `wrap_bio`, once per connection.
    """

    current: ssl.SSLContext
    knows_all_cas: Callable[[], bool]

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        made = self.current.wrap_bio(*args, **kwargs)
        assert isinstance(made, _VerifyingObject)
        made.knew_all_cas = self.knows_all_cas()
        return made

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return self.current.wrap_socket(*args, **kwargs)


class TLSConfig:
    """The serving certificate, the client CAs and the settings, as one replaceable SSLContext.

    min_version: "VersionTLS12" or "VersionTLS13". cipher_suites: IANA names for TLS 1.2; empty for all with ECDHE and AEAD.
    alpn: protocols in the server's order of preference. clock: monotonic seconds. Raises TLSError for an unknown setting.
    knows_all_cas: returns whether all client CAs are known now, see `knew_all_cas`.
    """

    def __init__(
        self,
        *,
        min_version: str = "VersionTLS12",
        cipher_suites: Sequence[str] = (),
        alpn: Sequence[str] = ("h2", "http/1.1"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if min_version not in TLS_VERSIONS:
            raise TLSError(f"unknown or unsafe TLS version {min_version!r}: use one of {', '.join(TLS_VERSIONS)}")
        self._min_version = TLS_VERSIONS[min_version]
        self._ciphers = _openssl_ciphers(cipher_suites)
        self._alpn = list(alpn)
        self._refusals = _Refusals(clock)
        self._inputs: tuple[bytes, bytes, bytes] | None = None
        self._named: Mapping[str, tuple[bytes, bytes]] = {}
        self._context = _DelegatingContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.knows_all_cas = lambda: self.knows_all_cas()
        self.knows_all_cas: Callable[[], bool] = lambda: True

    @property
    def context(self) -> ssl.SSLContext:
        """The context to listen with, always the same one. Raises TLSError before the first `update`."""
        if self._inputs is None:
            raise TLSError("no serving certificate yet")
        return self._context

    @property
    def handshake_failures(self) -> int:
        """How many handshakes have failed, for metrics."""
        return self._refusals.failures

    def update(
        self,
        *,
        cert_pem: bytes | None = None,
        key_pem: bytes | None = None,
        client_ca_pem: bytes | None = None,
        named: Mapping[str, tuple[bytes, bytes]] | None = None,
    ) -> bool:
        """Replace the parts that are given, and keep the others. Returns whether anything changed.

        client_ca_pem: if empty, no client certificate is requested. named: (certificate, key) in place of the serving certificate
        for clients that ask for a name; the first label of a name may be `*`.
        Either all given parts are replaced or none. If TLS can't be served with them, that is logged and the old parts are kept;
        if there are no old parts yet, at the start, TLSError is raised.
        """
        old = self._inputs or (b"", b"", b"")
        new = tuple(was if given is None else given for was, given in zip(old, (cert_pem, key_pem, client_ca_pem), strict=True))
        names = self._named if named is None else named
        if new == old and names == self._named:
            return False
        try:
            context = self._build(*new)
            if names:
                context.sni_callback = _chooser({name: self._build(*pair, new[2]) for name, pair in names.items()})
        except TLSError as error:
            if self._inputs is None:
                raise
            log.error("keeping the TLS certificates in use: %s", error)
            return False
        self._context.current = context
        self._inputs = (new[0], new[1], new[2])
        self._named = names
        return True

    def _build(self, cert_pem: bytes, key_pem: bytes, client_ca_pem: bytes) -> ssl.SSLContext:
        # Not ssl.create_default_context: since 3.13 it sets VERIFY_X509_STRICT, which refuses certificates made by `openssl
        # x509`.
        context = _VerifyingContext(ssl.PROTOCOL_TLS_SERVER)
        context.refusals = self._refusals
        context.sslobject_class = _VerifyingObject
        context.minimum_version = self._min_version
        context.set_ciphers(self._ciphers)
        context.set_alpn_protocols(self._alpn)
        # No resumed sessions: they would skip the current client CAs, and come without intermediates. Go clients rarely resume.
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        # The client's order of suites: all that are allowed are strong, and Go's clients, the aggregator among them, have AES-128
        # first, as Go's servers have. OpenSSL's own order has AES-256 first, which takes 1.1 times as long for a page of a list,
        # and before Python 3.15 that order can't be changed for TLS 1.3.
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        context.num_tickets = 0
        _load_pair(context, cert_pem, key_pem)
        if client_ca_pem.strip():
            try:
                roots = Roots.from_pem(client_ca_pem)
                for text in roots.skipped:
                    log.warning("client CA left out: %s", text)
                context.load_verify_locations(cadata=b"".join(roots.ders))
            except (CertificateError, ssl.SSLError) as error:
                raise TLSError(f"client CA bundle: {error}") from error
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _chooser(named: Mapping[str, ssl.SSLContext]) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    """A callback that gives a handshake the context of the name that the client asks for, or leaves it as it is."""

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is None:
            return
        lower = name.lower()
        found = named.get(lower) or named.get("*." + lower.partition(".")[2])
        if found is not None:
            connection.context = found

    return choose


def peer_certificate(ssl_object: ssl.SSLObject | ssl.SSLSocket | None) -> PeerCertificate | None:
    """The client's certificate after the handshake. None if it sent none, or without TLS."""
    der = ssl_object.getpeercert(binary_form=True) if ssl_object is not None else None
    if ssl_object is None or not der:
        return None
    return PeerCertificate(der, _sent_after_leaf(ssl_object))


def knew_all_cas(ssl_object: ssl.SSLObject | ssl.SSLSocket | None) -> bool:
    """Whether all client CAs were known at the handshake. If not, a client may have a certificate that was not requested."""
    return getattr(ssl_object, "knew_all_cas", True)


def _sent_after_leaf(ssl_object: ssl.SSLObject | ssl.SSLSocket) -> tuple[bytes, ...]:
    # Returns the intermediate certificates, without which our own verification refuses clients that have some. The method is
    # public since Python 3.13; 3.11 and 3.12 have it on the private object underneath.
    public = getattr(ssl_object, "get_unverified_chain", None)
    if public is not None:
        return tuple(public()[1:])
    private = getattr(getattr(ssl_object, "_sslobj", None), "get_unverified_chain", None)
    chain = private() if private is not None else None
    return tuple(ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in chain[1:]) if chain else ()


def _openssl_ciphers(names: Sequence[str]) -> str:
    if not names:
        return "ECDHE+AESGCM:ECDHE+CHACHA20"
    if unknown := [name for name in names if name not in CIPHER_SUITES and name not in TLS13_SUITES]:
        known = ", ".join(sorted(CIPHER_SUITES))
        raise TLSError(f"unknown or unsafe cipher suite {unknown[0]!r}: use some of {known}")
    chosen = [CIPHER_SUITES[name] for name in names if name in CIPHER_SUITES]
    if not chosen:
        raise TLSError("only suites of TLS 1.3 were given, and these are always on: use --tls-min-version=VersionTLS13")
    return ":".join(chosen)


def check_pair(cert_pem: bytes, key_pem: bytes) -> None:
    """Check that TLS can be served with this certificate and key. Raises TLSError."""
    _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), cert_pem, key_pem)


def _load_pair(context: ssl.SSLContext, cert_pem: bytes, key_pem: bytes) -> None:
    if not cert_pem.strip() or not key_pem.strip():
        raise TLSError("the serving certificate or its key is empty")
    # In both cases OpenSSL's error would only be "PEM lib".
    if b"-----BEGIN CERTIFICATE-----" not in cert_pem:
        raise TLSError("serving certificate: there is no certificate in PEM")
    if b"PRIVATE KEY-----" not in key_pem:
        raise TLSError("serving certificate: there is no private key in PEM")
    try:
        with _as_file(cert_pem + b"\n" + key_pem) as path:
            context.load_cert_chain(path, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        unread = "its PEM can't be read" if isinstance(error, ssl.SSLError) else str(error)
        reason = getattr(error, "reason", None) or unread
        raise TLSError(f"serving certificate: {reason}") from error


def _no_password() -> str:
    # Without this, OpenSSL asks on the terminal, and a server would wait there for ever.
    raise ValueError("the private key is encrypted")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """The path of a file with this content, for the duration of the block: OpenSSL only reads certificates from files.

    On Linux the file is in memory, so that no key gets onto the disk and a container's file system may be read-only.
    """
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("pem", os.MFD_CLOEXEC)
        try:
            os.write(handle, content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


class FileWatcher:
    """Reads certificate files: once at start, and all of them again whenever one has changed.

    A mounted Secret changes when a symbolic link above the files is swapped, so the files behind the paths are compared. All
    are read together, because a certificate and its key change together.

    files: paths by names that the caller chooses. on_change: called with the contents by the same names.
    """

    def __init__(self, files: Mapping[str, Path], on_change: Callable[[dict[str, bytes]], None]) -> None:
        self._files = dict(files)
        self._on_change = on_change
        self._seen: dict[str, disk.Signature | None] = {}

    def read(self) -> dict[str, bytes]:
        """The contents by name. `poll` reports later changes. Raises TLSError, which names the file that can't be read."""
        self._seen = self._signatures()
        contents = {}
        for name, path in self._files.items():
            try:
                contents[name] = path.read_bytes()
            except OSError as error:
                raise TLSError(f"{path}: {error.strerror}") from error
        return contents

    def poll(self) -> None:
        """Call `on_change` if a file has changed. If a file can't be read, log that once for each change."""
        if self._signatures() == self._seen:
            return
        try:
            contents = self.read()
        except TLSError as error:
            log.error("keeping the certificates in use: %s", error)
        else:
            self._on_change(contents)

    async def run(self, sleep: Callable[[float], Awaitable[None]], interval: float = FILE_POLL_SECONDS) -> None:
        """Polls for ever, every `interval` seconds."""
        while True:
            await sleep(interval)
            self.poll()

    def _signatures(self) -> dict[str, disk.Signature | None]:
        return {name: disk.signature(path) for name, path in self._files.items()}

"""Files of certificates that flags name, for either server: `--client-ca-file`, `--tls-cert-file`, `--ca-bundle-file`.

They are read by a FileWatcher, at the start and again when one changes. Here their contents are checked, so that the error for an
unusable file is one line with its flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from aggserver.authentication.delegating import ClientCA, TrustError
from aggserver.authentication.x509 import CertificateError, Roots
from aggserver.options import Options
from aggserver.server.tls import TLSError, check_pair

__all__ = ["CLIENT_CA", "ServingPair", "client_ca_files", "client_ca_from", "roots_from", "serving_files", "serving_pair_from"]

CLIENT_CA = "client-ca-file"
_CERT, _KEY, _BUNDLE = "tls-cert-file", "tls-private-key-file", "ca-bundle-file"


class ServingPair(NamedTuple):
    """A serving certificate, all as PEM. ca_bundle: for clients to verify the certificate with."""

    cert_pem: bytes
    key_pem: bytes
    ca_bundle: bytes


def serving_files(options: Options) -> dict[str, Path]:
    """The paths by flag of the serving certificate; empty if the server is to make its own."""
    if options.tls_cert_file is None or options.tls_private_key_file is None:
        return {}
    files = {_CERT: options.tls_cert_file, _KEY: options.tls_private_key_file}
    return files if options.ca_bundle_file is None else {**files, _BUNDLE: options.ca_bundle_file}


def serving_pair_from(files: Mapping[str, Path], contents: Mapping[str, bytes]) -> ServingPair:
    """The serving certificate in the contents of `serving_files`. Raises TLSError that names the flags."""
    try:
        check_pair(contents[_CERT], contents[_KEY])
    except TLSError as error:
        raise TLSError(f"--{_CERT} {files[_CERT]}, --{_KEY} {files[_KEY]}: {error}") from error
    if _BUNDLE in contents:
        try:
            Roots.from_pem(contents[_BUNDLE])
        except CertificateError as error:
            raise TLSError(f"--{_BUNDLE} {files[_BUNDLE]}: {error}") from error
    # Without a bundle, clients get the certificate itself to trust: Go accepts a leaf certificate that is among the roots.
    return ServingPair(contents[_CERT], contents[_KEY], contents.get(_BUNDLE) or contents[_CERT])


def client_ca_files(options: Options) -> dict[str, Path]:
    """The path of the client CA by its flag; empty if the flag is not given."""
    return {} if options.client_ca_file is None else {CLIENT_CA: options.client_ca_file}


def client_ca_from(files: Mapping[str, Path], contents: Mapping[str, bytes]) -> ClientCA | None:
    """The client CA in the contents of `client_ca_files`, None if there is none. Raises TrustError that names the flag."""
    if CLIENT_CA not in contents:
        return None
    return ClientCA(contents[CLIENT_CA], roots_from(CLIENT_CA, files, contents))


def roots_from(flag: str, files: Mapping[str, Path], contents: Mapping[str, bytes]) -> Roots:
    """The CAs in the contents of a flag's file. Raises TrustError that names the flag."""
    try:
        return Roots.from_pem(contents[flag])
    except CertificateError as error:
        raise TrustError(f"--{flag} {files[flag]}: {error}") from error

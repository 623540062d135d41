"""The CAs and headers to trust that flags name: `--client-ca-file` and `--requestheader-*`, read from their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aggserver.authentication.configmap import TrustOverrides
from aggserver.authentication.delegating import AuthenticationConfig, ClientCA, TrustError
from aggserver.authentication.requestheader import RequestHeaderConfig
from aggserver.authentication.x509 import CertificateError, Roots
from aggserver.options import Options

__all__ = ["overrides_from", "trust_files"]

_CLIENT_CA = "client-ca-file"
_REQUEST_HEADER_CA = "requestheader-client-ca-file"


def trust_files(options: Options) -> dict[str, Path]:
    """The files that the flags name, for a FileWatcher."""
    given = {_CLIENT_CA: options.client_ca_file, _REQUEST_HEADER_CA: options.requestheader_client_ca_file}
    return {name: path for name, path in given.items() if path is not None}


def overrides_from(options: Options, contents: Mapping[str, bytes]) -> TrustOverrides:
    """contents: of `trust_files`. Raises TrustError, which names the flag; also for flags that contradict each other."""
    client_ca = None
    if _CLIENT_CA in contents:
        client_ca = ClientCA(contents[_CLIENT_CA], _roots(_CLIENT_CA, options.client_ca_file, contents))
    request_header = None
    if _REQUEST_HEADER_CA in contents:
        request_header = _request_header(options, _roots(_REQUEST_HEADER_CA, options.requestheader_client_ca_file, contents))
    request_header_ca = contents.get(_REQUEST_HEADER_CA, b"")
    AuthenticationConfig(client_ca, request_header, request_header_ca)  # raises if the two must not be trusted together
    return TrustOverrides(
        client_ca=client_ca,
        request_header=request_header,
        request_header_ca=request_header_ca,
        skip_lookup=options.authentication_skip_lookup,
        tolerate_failure=options.authentication_tolerate_lookup_failure,
    )


def _roots(flag: str, path: Path | None, contents: Mapping[str, bytes]) -> Roots:
    try:
        return Roots.from_pem(contents[flag])
    except CertificateError as error:
        raise TrustError(f"--{flag} {path}: {error}") from error


def _request_header(options: Options, roots: Roots) -> RequestHeaderConfig:
    try:
        return RequestHeaderConfig.from_flags(
            roots,
            allowed_names=options.requestheader_allowed_names,
            username_headers=options.requestheader_username_headers,
            uid_headers=options.requestheader_uid_headers,
            group_headers=options.requestheader_group_headers,
            extra_prefixes=options.requestheader_extra_headers_prefix,
        )
    except ValueError as error:
        raise TrustError(f"--requestheader-*: {error}") from error

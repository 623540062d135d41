"""The CAs and headers to trust that flags name: `--client-ca-file` and `--requestheader-*`, read from their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aggserver.app.pem_files import client_ca_files, client_ca_from, roots_from
from aggserver.authentication.configmap import TrustOverrides
from aggserver.authentication.delegating import AuthenticationConfig, TrustError
from aggserver.authentication.requestheader import RequestHeaderConfig
from aggserver.authentication.x509 import Roots
from aggserver.options import Options

__all__ = ["overrides_from", "trust_files"]

_REQUEST_HEADER_CA = "requestheader-client-ca-file"


def trust_files(options: Options) -> dict[str, Path]:
    """The files that the flags name, for a FileWatcher."""
    files = client_ca_files(options)
    if options.requestheader_client_ca_file is not None:
        files[_REQUEST_HEADER_CA] = options.requestheader_client_ca_file
    return files


def overrides_from(options: Options, contents: Mapping[str, bytes]) -> TrustOverrides:
    """What the flags say about trust. contents: of `trust_files`. Raises TrustError that names the flag, or a contradiction."""
    files = trust_files(options)
    client_ca = client_ca_from(files, contents)
    request_header = None
    if _REQUEST_HEADER_CA in contents:
        request_header = _request_header(options, roots_from(_REQUEST_HEADER_CA, files, contents))
    request_header_ca = contents.get(_REQUEST_HEADER_CA, b"")
    AuthenticationConfig(client_ca, request_header, request_header_ca)  # raises if the two must not be trusted together
    return TrustOverrides(
        client_ca=client_ca,
        request_header=request_header,
        request_header_ca=request_header_ca,
        skip_lookup=options.authentication_skip_lookup,
        tolerate_failure=options.authentication_tolerate_lookup_failure,
    )


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

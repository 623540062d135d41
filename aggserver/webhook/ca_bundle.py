"""What is wrong with a CA bundle, in the words of client-go.

A bundle is good if one certificate in it can be read; what stands between certificates, other kinds of blocks, and certificates
with headers do not matter. Of a certificate only the outer form is looked at: whether it is one shows when the bundle is used.
Pure. Source: k8s.io/client-go transport/transport.go (rootCertPool, createErrorParsingCAData), v0.36.3; Go's encoding/pem and
crypto/x509, 1.26.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

__all__ = ["blocks", "certificates", "problem"]

# A block: from the last BEGIN line before an END line to that. The first line of a block may have nothing but the mark.
_BLOCK = re.compile(
    rb"(?:(?<=\n)|\A)-----BEGIN ([^\n]*?)-----[ \t]*\r?\n((?:(?!-----BEGIN ).)*?)(?<=\n)-----END \1-----[ \t]*\r?(?:\n|\Z)",
    re.DOTALL,
)
_HEADER = re.compile(rb"[^\n:]*:[^\n]*\n")
_SEQUENCE, _BIT_STRING = 0x30, 0x03


def problem(bundle: bytes) -> str:
    """'' for an empty bundle, which means the system's certificates."""
    if not bundle:
        return ""
    first, end = "", 0
    for kind, has_headers, content, end in blocks(bundle):  # noqa: B007 - `end` is used after the loop
        if kind != b"CERTIFICATE" or has_headers:
            continue
        why = _malformed(content)
        if not why:
            return ""
        first = first or f"failed to parse certificate: x509: {why}"
    if first:
        return first
    return "no valid certificate authority data seen" if end == len(bundle) else "unable to parse bytes as PEM block"


def certificates(bundle: bytes) -> Iterator[bytes]:
    """The certificates of a bundle that can be read, as DER."""
    for kind, has_headers, content, _ in blocks(bundle):
        if kind == b"CERTIFICATE" and not has_headers and not _malformed(content):
            yield content


def blocks(bundle: bytes) -> Iterator[tuple[bytes, bool, bytes, int]]:
    """Kind, whether it has headers, content and end of each block of PEM that can be read."""
    for found in _BLOCK.finditer(bundle):
        kind, body = found[1], found[2]
        has_headers = False
        while (header := _HEADER.match(body)) is not None:
            has_headers = True
            body = body[header.end() :]
        try:
            yield kind, has_headers, base64.b64decode(body.translate(None, b" \t\r\n"), validate=True), found.end()
        except binascii.Error:
            continue


def _malformed(der: bytes) -> str:
    """What Go's x509 says of a certificate whose outer form is wrong: SEQUENCE { tbs, algorithm, signature }."""
    outer = _element(der, _SEQUENCE)
    if outer is None:
        return "malformed certificate"
    inner, rest = outer
    names = ("tbs certificate", "algorithm identifier", "signature")
    for tag, name in zip((_SEQUENCE, _SEQUENCE, _BIT_STRING), names, strict=True):
        part = _element(inner, tag)
        if part is None:
            return f"malformed {name}"
        inner = part[1]
    return "trailing data" if rest else ""


def _element(der: bytes, tag: int) -> tuple[bytes, bytes] | None:
    """Content and rest of the DER element at the beginning; None if there is none with this tag."""
    if len(der) < 2 or der[0] != tag:
        return None
    length, start = der[1], 2
    if length > 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(der[2:start], "big")
        if len(der) < start or start > 6 or length < 0x80:
            return None
    elif length == 0x80:
        return None
    return (der[start : start + length], der[start + length :]) if len(der) >= start + length else None

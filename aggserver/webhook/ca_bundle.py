"""What is wrong with a CA bundle, in the words of client-go.

A bundle is valid if one certificate in it can be read. Text between blocks, other kinds of blocks and certificates with headers
are ignored. Only the outermost DER elements of a certificate are checked here; the rest is checked when the bundle is used.
Pure. Source: k8s.io/client-go transport/transport.go (rootCertPool, createErrorParsingCAData), v0.36.3; Go's encoding/pem and
crypto/x509, 1.26.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

__all__ = ["blocks", "certificates", "problem"]

# A block reaches from the last BEGIN line before an END line to that END line. These lines have only the marks and the kind.
_BEGIN, _END, _DASHES = b"-----BEGIN ", b"\n-----END ", b"-----"
_SEQUENCE, _BIT_STRING = 0x30, 0x03


def problem(bundle: bytes) -> str:
    """What is wrong with a bundle; '' if nothing is, also for an empty one, which means the system's certificates."""
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
    """Each PEM block that can be read: its kind, whether it has headers, its content, and the position after it."""
    at = 0
    while (end := bundle.find(_END, at)) >= 0:
        trailer = end + len(_END)
        found = _block(bundle, at, end)
        at = trailer
        if found is not None:
            yield found
            at = found[3]


def _block(bundle: bytes, at: int, end: int) -> tuple[bytes, bool, bytes, int] | None:
    """The block whose END line begins at `end`, and whose BEGIN line is at or after `at`; None if it can't be read."""
    begin = bundle.rfind(_BEGIN, at, end)
    if begin < 0 or (begin > at and bundle[begin - 1] != ord("\n")):
        return None
    first, start = _line(bundle, begin + len(_BEGIN))
    kind = first.removesuffix(_DASHES)
    content = start
    while content <= end:
        header, after = _line(bundle, content)
        if b":" not in header:
            break
        content = after
    # Headers must be followed by an empty line.
    if first == kind or (content > end and content > start):
        return None
    last, behind = _line(bundle, end + len(_END))
    if last != kind + _DASHES:
        return None
    try:
        decoded = base64.b64decode(bundle[content:end].translate(None, b" \t\r\n"), validate=True)
    except binascii.Error:
        return None
    return kind, content > start, decoded, behind


def _line(bundle: bytes, at: int) -> tuple[bytes, int]:
    """The line that begins at `at`, without blanks at its end, and the position of the next one."""
    end = bundle.find(b"\n", at)
    end, after = (len(bundle), len(bundle)) if end < 0 else (end, end + 1)
    return bundle[at:end].removesuffix(b"\r").rstrip(b" \t"), after


def _malformed(der: bytes) -> str:
    """The error of Go's x509 for a certificate that is no SEQUENCE { tbs, algorithm, signature }; '' if it is one."""
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

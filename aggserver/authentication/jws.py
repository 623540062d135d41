"""Signed JSON Web Tokens in their compact form, as kube-apiserver makes and verifies them: RS256, ES256, ES384 and ES512.

The key determines the algorithm; a token that names another one is not valid. No I/O. New keys and ECDSA signatures use random
numbers, so they differ each time.
Source: RFC 7515, RFC 7517, RFC 7518; k8s.io/kubernetes pkg/serviceaccount/{jwt,openidmetadata}.go, v1.36.3; k8s.io/client-go
util/keyutil/key.go, v0.36.3; error texts of go-jose.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from aggserver.errors import AggserverError
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject

__all__ = [
    "KeyFileError",
    "SignatureError",
    "SignedToken",
    "SigningKey",
    "VerifyingKey",
    "new_key",
    "read",
    "sign",
    "signing_key",
    "verified",
    "verifying_keys",
]

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_NOT_IN_URLS = frozenset("+/=")
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
# Curve -> (algorithm, hash, JWK's name of the curve, bytes of a coordinate).
_CURVES: dict[str, tuple[str, hashes.HashAlgorithm, str, int]] = {
    "secp256r1": ("ES256", hashes.SHA256(), "P-256", 32),
    "secp384r1": ("ES384", hashes.SHA384(), "P-384", 48),
    "secp521r1": ("ES512", hashes.SHA512(), "P-521", 66),
}


class KeyFileError(AggserverError):
    """A file of keys can't be used. The text never contains any part of a key."""


class SignatureError(Exception):
    """None of the keys has made the signature."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key. key_id: the hash of the key, computed as upstream does."""

    key_id: str
    algorithm: str
    key: PublicKey

    @classmethod
    def of(cls, key: PublicKey) -> VerifyingKey:
        """Raises KeyFileError for a curve that JSON Web Tokens don't have."""
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(_encoded(hashlib.sha256(der).digest()), _algorithm(key), key)

    def accepts(self, token: SignedToken) -> bool:
        if token.algorithm != self.algorithm:
            return False
        try:
            if isinstance(self.key, rsa.RSAPublicKey):
                self.key.verify(token.signature, token.signed, padding.PKCS1v15(), hashes.SHA256())
                return True
            _, of_hash, _, size = _CURVES[self.key.curve.name]
            if len(token.signature) != 2 * size:
                return False
            r, s = (int.from_bytes(half) for half in (token.signature[:size], token.signature[size:]))
            self.key.verify(encode_dss_signature(r, s), token.signed, ec.ECDSA(of_hash))
        except InvalidSignature:
            return False
        return True

    def jwk(self) -> JSONObject:
        """The key as a JSON Web Key, with go-jose's order of fields."""
        if isinstance(self.key, rsa.RSAPublicKey):
            numbers = self.key.public_numbers()
            kind, own = "RSA", {"alg": self.algorithm, "n": _encoded(_bytes(numbers.n)), "e": _encoded(_bytes(numbers.e))}
        else:
            point = self.key.public_numbers()
            _, _, curve, size = _CURVES[self.key.curve.name]
            x, y = (_encoded(value.to_bytes(size)) for value in (point.x, point.y))
            kind, own = "EC", {"crv": curve, "alg": self.algorithm, "x": x, "y": y}
        return {"use": "sig", "kty": kind, "kid": self.key_id, **own}


@dataclass(frozen=True, slots=True)
class SigningKey:
    key: PrivateKey
    public: VerifyingKey

    @classmethod
    def of(cls, key: PrivateKey) -> SigningKey:
        """Raises KeyFileError for a curve that JSON Web Tokens don't have."""
        return cls(key, VerifyingKey.of(key.public_key()))

    def signature(self, signed: bytes) -> bytes:
        if isinstance(self.key, rsa.RSAPrivateKey):
            return self.key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        _, of_hash, _, size = _CURVES[self.key.curve.name]
        r, s = decode_dss_signature(self.key.sign(signed, ec.ECDSA(of_hash)))
        return r.to_bytes(size) + s.to_bytes(size)


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A token as it was read. Its claims must not be trusted until `verified` has returned."""

    algorithm: str
    key_id: str
    claims: JSONObject
    signed: bytes
    signature: bytes


def sign(key: SigningKey, claims: JSONObject) -> str:
    """The signed token. Claims are sorted, as by Go."""
    header = {"alg": key.public.algorithm, "kid": key.public.key_id}
    signed = f"{_encoded(codec.encode_json(header))}.{_encoded(codec.encode_json(dict(sorted(claims.items()))))}"
    return f"{signed}.{_encoded(key.signature(signed.encode()))}"


def read(text: str) -> SignedToken | None:
    """Parse a token without verifying it; None if the text is no signed JSON Web Token."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        header, claims, signature = (_decoded(part) for part in parts)
        head, payload = codec.decode_json(header), codec.decode_json(claims)
    except (ValueError, codec.DecodeError):
        return None
    if not isinstance(head, dict) or not isinstance(payload, dict):
        return None
    algorithm, key_id = head.get("alg"), head.get("kid", "")
    # A token must be refused if an extension that `crit` names is not supported; none is supported here.
    if not isinstance(algorithm, str) or not isinstance(key_id, str) or "crit" in head:
        return None
    return SignedToken(algorithm, key_id, payload, f"{parts[0]}.{parts[1]}".encode(), signature)


def verified(token: SignedToken, keys: Iterable[VerifyingKey]) -> VerifyingKey:
    """The key that has signed the token. Raises SignatureError."""
    candidates = [key for key in keys if not token.key_id or key.key_id == token.key_id]
    if not candidates:
        raise SignatureError("invalid signature, no keys found")
    for key in candidates:
        if key.accepts(token):
            return key
    raise SignatureError("go-jose/go-jose: error in cryptographic primitive")


def verifying_keys(pem: bytes) -> list[VerifyingKey]:
    """The public keys of a file with public keys, private ones or certificates. Raises KeyFileError if there is none."""
    found = [key for block in _PEM.finditer(pem) if (key := _public_key(block[1], block[0])) is not None]
    if not found:
        raise KeyFileError("data does not contain any valid RSA or ECDSA public keys")
    return [VerifyingKey.of(key) for key in found]


def signing_key(pem: bytes) -> SigningKey:
    """The first private key of a file. Raises KeyFileError."""
    for block in _PEM.finditer(pem):
        if (key := _private_key(block[1], block[0])) is not None:
            return SigningKey.of(key)
    raise KeyFileError("data does not contain a valid RSA or ECDSA private key")


def new_key() -> bytes:
    """A new private key as PEM: ECDSA P-256, which is quick to generate."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _private_key(label: bytes, pem: bytes) -> PrivateKey | None:
    if not label.endswith(b"PRIVATE KEY"):
        return None
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) else None


def _public_key(label: bytes, pem: bytes) -> PublicKey | None:
    if (private := _private_key(label, pem)) is not None:
        return private.public_key()
    key: Any
    try:
        key = x509.load_pem_x509_certificate(pem).public_key() if label == b"CERTIFICATE" else load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey) else None


def _algorithm(key: PublicKey) -> str:
    if isinstance(key, rsa.RSAPublicKey):
        return "RS256"
    if key.curve.name not in _CURVES:
        raise KeyFileError("unknown private key curve, must be 256, 384, or 521")
    return _CURVES[key.curve.name][0]


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Decode unpadded base64url. Raises ValueError."""
    if not _NOT_IN_URLS.isdisjoint(text):  # b64decode would take `+` and `/` for `-` and `_`
        raise ValueError("padded, or not base64url")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None

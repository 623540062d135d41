"""Signed tokens: made and verified with each kind of key, and each way in which one is not valid."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from aggserver.authentication import jws
from aggserver.authentication.jws import KeyFileError, SignatureError, SigningKey, VerifyingKey
from aggserver.certificates.issuing import new_ca

NOW = 1_800_000_000.0
KEYS = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
}
OURS = SigningKey.of(KEYS["ES256"])
OTHER = SigningKey.of(ec.generate_private_key(ec.SECP256R1()))
TOKEN = jws.sign(OURS, {"sub": "x", "iss": "y"})


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def public_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", KEYS)
def test_signed_and_verified(algorithm: str) -> None:
    key = SigningKey.of(KEYS[algorithm])
    token = jws.read(jws.sign(key, {"b": 1, "a": [2]}))
    assert token is not None
    assert (token.algorithm, token.key_id, list(token.claims.items())) == (algorithm, key.public.key_id, [("a", [2]), ("b", 1)])
    assert jws.verified(token, [OTHER.public, key.public]) is key.public
    with pytest.raises(SignatureError, match="invalid signature, no keys found"):
        jws.verified(token, [OTHER.public])


def test_without_a_key_id_all_keys_are_tried() -> None:
    signed = f"{encoded({'alg': 'ES256'})}.{encoded({})}"
    text = f"{signed}.{base64.urlsafe_b64encode(OURS.signature(signed.encode())).rstrip(b'=').decode()}"
    token = jws.read(text)
    assert token is not None
    assert jws.verified(token, [OTHER.public, OURS.public]) is OURS.public
    with pytest.raises(SignatureError, match="go-jose/go-jose: error in cryptographic primitive"):
        jws.verified(token, [OTHER.public])


HEAD, CLAIMS, SIGNATURE = TOKEN.split(".")
FORGED = {
    "other claims": f"{HEAD}.{encoded({'sub': 'root'})}.{SIGNATURE}",
    "another signature": f"{HEAD}.{CLAIMS}.{SIGNATURE[:-8]}AAAAAAAA",
    "a short signature": f"{HEAD}.{CLAIMS}.{SIGNATURE[:-8]}",
    "no signature": f"{HEAD}.{CLAIMS}.",
    "zeros": f"{HEAD}.{CLAIMS}.{'A' * 86}",
    "no algorithm": f"{encoded({'alg': 'none', 'kid': OURS.public.key_id})}.{CLAIMS}.",
    "the public key as a secret": f"{encoded({'alg': 'HS256', 'kid': OURS.public.key_id})}.{CLAIMS}.{SIGNATURE}",
}


@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_forged(text: str) -> None:
    token = jws.read(text)
    assert token is not None
    with pytest.raises(SignatureError, match="error in cryptographic primitive"):
        jws.verified(token, [OURS.public, VerifyingKey.of(KEYS["RS256"].public_key())])


def signed_with(head: dict[str, str], pad: bytes = b"") -> str:
    """A token of ours with another header, and something between the two numbers of the signature."""
    signed = f"{encoded(head)}.{CLAIMS}"
    signature = OURS.signature(signed.encode())
    whole = signature[:32] + pad + signature[32:]
    return f"{signed}.{base64.urlsafe_b64encode(whole).rstrip(b'=').decode()}"


@pytest.mark.parametrize("algorithm", ["ES384", "RS256", "HS256", "none", ""])
def test_another_algorithm_than_the_key_has(algorithm: str) -> None:
    token = jws.read(signed_with({"alg": algorithm, "kid": OURS.public.key_id}))
    assert token is not None
    with pytest.raises(SignatureError):
        jws.verified(token, [OURS.public])


@pytest.mark.parametrize(("pad", "valid"), [(b"", True), (b"\0", False)])
def test_numbers_of_a_signature_have_a_size(pad: bytes, valid: bool) -> None:
    token = jws.read(signed_with({"alg": "ES256", "kid": OURS.public.key_id}, pad))
    assert token is not None
    assert OURS.public.accepts(token) is valid


NO_TOKENS = {
    "empty": "",
    "a word": "abc",
    "two parts": "a.b",
    "no base64": "!.!.!",
    "padded": f"{HEAD}=.{CLAIMS}.{SIGNATURE}",
    "base64 that is not for URLs": f"{HEAD}.{CLAIMS}.+/{SIGNATURE[2:]}",
    "no JSON": "YQ.YQ.YQ",
    "a list": f"{encoded([])}.{CLAIMS}.{SIGNATURE}",
    "claims that are a list": f"{HEAD}.{encoded([])}.{SIGNATURE}",
    "an algorithm that is no text": f"{encoded({'alg': 1})}.{CLAIMS}.{SIGNATURE}",
    "an extension": f"{encoded({'alg': 'ES256', 'crit': ['b64'], 'b64': False})}.{CLAIMS}.{SIGNATURE}",
    "letters beyond ASCII": f"{HEAD}.{CLAIMS}.é",
}


@pytest.mark.parametrize("text", NO_TOKENS.values(), ids=NO_TOKENS)
def test_no_tokens(text: str) -> None:
    assert jws.read(text) is None


CERTIFICATE = new_ca("ca", NOW)
FILES = {
    # the file: how many public keys, and whether it can sign
    "RSA, PKCS #1": (pem(KEYS["RS256"], PrivateFormat.TraditionalOpenSSL), 1, True),
    "RSA, PKCS #8": (pem(KEYS["RS256"], PrivateFormat.PKCS8), 1, True),
    "ECDSA, SEC 1": (pem(KEYS["ES256"], PrivateFormat.TraditionalOpenSSL), 1, True),
    "ECDSA, PKCS #8": (pem(KEYS["ES512"], PrivateFormat.PKCS8), 1, True),
    "public": (public_pem(KEYS["RS256"]), 1, False),
    "certificate": (CERTIFICATE.cert_pem, 1, False),
    "several": (public_pem(KEYS["RS256"]) + b"text\n" + public_pem(KEYS["ES256"]), 2, False),
    "with something else": (b"-----BEGIN X-----\nYQ==\n-----END X-----\n" + public_pem(KEYS["ES256"]), 1, False),
    "parameters first": (
        b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + CERTIFICATE.key_pem,
        1,
        True,
    ),
    "text": (b"text", 0, False),
    "another kind": (pem(ed25519.Ed25519PrivateKey.generate(), PrivateFormat.PKCS8), 0, False),
    "cut off": (public_pem(KEYS["RS256"])[:100] + b"\n-----END PUBLIC KEY-----\n", 0, False),
}


@pytest.mark.parametrize(("content", "count", "signs"), FILES.values(), ids=FILES)
def test_files_of_keys(content: bytes, count: int, signs: bool) -> None:
    if count:
        assert len(jws.verifying_keys(content)) == count
    else:
        with pytest.raises(KeyFileError, match="data does not contain any valid RSA or ECDSA public keys"):
            jws.verifying_keys(content)
    if signs:
        assert jws.signing_key(content).public.key_id == jws.verifying_keys(content)[0].key_id
    else:
        with pytest.raises(KeyFileError, match="data does not contain a valid RSA or ECDSA private key"):
            jws.signing_key(content)


def test_a_curve_that_tokens_do_not_have() -> None:
    with pytest.raises(KeyFileError, match="unknown private key curve, must be 256, 384, or 521"):
        SigningKey.of(ec.generate_private_key(ec.SECP256K1()))


def test_json_web_keys() -> None:
    """The point and the modulus are those of the key."""
    point = KEYS["ES512"].public_key().public_numbers()
    web = SigningKey.of(KEYS["ES512"]).public.jwk()
    assert list(web) == ["use", "kty", "kid", "crv", "alg", "x", "y"]
    assert (web["use"], web["kty"], web["crv"], web["alg"]) == ("sig", "EC", "P-521", "ES512")
    assert int.from_bytes(base64.urlsafe_b64decode(web["x"] + "=" * (-len(web["x"]) % 4))) == point.x
    web = SigningKey.of(KEYS["RS256"]).public.jwk()
    assert list(web) == ["use", "kty", "kid", "alg", "n", "e"]
    assert (web["kty"], web["alg"], web["e"]) == ("RSA", "RS256", "AQAB")


def test_a_new_key(tmp_path: Path) -> None:
    assert jws.signing_key(jws.new_key()).public.algorithm == "ES256"
    assert jws.new_key() != jws.new_key()

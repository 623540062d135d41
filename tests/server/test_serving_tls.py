"""The server over real sockets: client certificates, certificates that change, and broken handshakes."""

from __future__ import annotations

import asyncio
import logging
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aggserver.authentication.x509 import Roots, verify
from aggserver.certificates.issuing import KeyPair, issue_client, issue_serving, new_ca, sign_request
from tests.server.clients import close, http1, tls_context
from tests.server.running import CA, CLIENT_CA, GET, LOOPS, NOW, PROXY_CA, Running
from tests.waiting import HANG_SECONDS


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_client_certificates_reach_the_application(factory, tmp_path):
    async def main():
        async with Running() as running:
            for ca, name in ((CLIENT_CA, "alice"), (PROXY_CA, "front-proxy-client")):
                pair = issue_client(ca, name, ["group"], NOW)
                context = tls_context(CA.cert_pem, alpn=["http/1.1"], client=pair, tmp_path=tmp_path)
                assert (await http1(running.port, GET % b"/", context)).endswith(b"\r\n\r\n1.1")
                client = await running.http2(client=pair, tmp_path=tmp_path)
                for _ in range(3):
                    assert (await client.get())["body"] == b"2"
                http1_peer, *http2_peers = running.app.peers
                for peer in (http1_peer, *http2_peers):
                    assert verify(peer, Roots.from_pem(ca.cert_pem), NOW).common_name == name
                assert len(set(map(id, http2_peers))) == 1, "one per connection"
                running.app.peers.clear()
            assert b"200" in await http1(running.port, GET % b"/", tls_context(CA.cert_pem, alpn=["http/1.1"]))
            assert running.app.peers == [None]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_certificates_change_while_listening(factory, tmp_path):
    async def main():
        new_serving_ca = new_ca("another", NOW)
        pair = issue_serving(new_serving_ca, ["localhost"], [], NOW)
        alice = issue_client(CLIENT_CA, "alice", [], NOW)
        async with Running() as running:
            old = await running.http2(client=alice, tmp_path=tmp_path)
            assert (await old.get())["status"] == 200
            running.tls.update(cert_pem=pair.cert_pem, key_pem=pair.key_pem, client_ca_pem=PROXY_CA.cert_pem)
            with pytest.raises(ssl.SSLCertVerificationError):
                await running.http2()
            trusting = tls_context(new_serving_ca.cert_pem, alpn=["http/1.1"])
            assert b"200" in await http1(running.port, GET % b"/", trusting)
            refused = tls_context(new_serving_ca.cert_pem, alpn=["http/1.1"], client=alice, tmp_path=tmp_path)
            assert not await answer_if_any(running.port, refused)
            assert running.app.asked == 2
            assert (await old.get())["status"] == 200, "connections live on"

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_a_connection_remembers_whether_all_cas_were_known(factory):
    async def main():
        async with Running() as running:
            known = False
            running.tls.knows_all_cas = lambda: known
            before = await running.http2()
            assert (await before.get())["status"] == 200
            known = True
            after = await running.http2()
            for client in (before, after, before):
                assert (await client.get())["status"] == 200
            assert running.app.knew_all == [False, False, True, False]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def answer_if_any(port, context):
    """In TLS 1.3 a refused client learns of it when it reads, and not in the same way from every event loop."""
    try:
        return await http1(port, GET % b"/", context)
    except OSError:
        return b""


async def test_intermediates_are_passed_on(tmp_path):
    from tests.authentication.test_x509 import CLIENT_AUTH, IS_CA, Issued

    root = Issued("root", extensions=[IS_CA], start=NOW - 60, end=NOW + 3600)
    middle = Issued("middle", root, extensions=[IS_CA], start=NOW - 60, end=NOW + 3600)
    leaf = Issued("alice", middle, extensions=[CLIENT_AUTH], start=NOW - 60, end=NOW + 3600)

    class Chain:
        cert_pem = leaf.pem + middle.pem
        key_pem = pem_key(leaf.key)

    async with Running() as running:
        running.tls.update(client_ca_pem=root.pem)
        context = tls_context(CA.cert_pem, alpn=["http/1.1"], client=Chain, tmp_path=tmp_path)
        assert b"200" in await http1(running.port, GET % b"/", context)
        assert verify(running.app.peers[0], Roots.from_pem(root.pem), NOW).common_name == "alice"


def pem_key(key):
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


CLIENT_AUTH, ANY_USAGE = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE


PURPOSES = {
    "client": ([CLIENT_AUTH], True),
    "client and any": ([CLIENT_AUTH, ANY_USAGE], True),
    "any": ([ANY_USAGE], False),
    "server": ([ExtendedKeyUsageOID.SERVER_AUTH], False),
}


@pytest.mark.parametrize(("usages", "accepted"), PURPOSES.values(), ids=PURPOSES)
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_purposes_of_client_certificates(factory, usages, accepted, tmp_path, caplog):
    """OpenSSL wants clientAuth by its name, and Python can't tell it otherwise: at least it is said, and not too often."""
    from tests.authentication.test_x509 import IS_CA, Issued

    span = {"start": NOW - 60, "end": NOW + 3600}
    root = Issued("front-proxy-ca", extensions=[IS_CA], **span)
    leaf = Issued("front-proxy-client", root, extensions=[(x509.ExtendedKeyUsage(usages), False)], **span)

    async def main():
        async with Running() as running:
            running.tls.update(client_ca_pem=root.pem)
            proxy = KeyPair(leaf.pem, pem_key(leaf.key))
            context = tls_context(CA.cert_pem, alpn=["http/1.1"], client=proxy, tmp_path=tmp_path)
            for _ in range(3):
                answer = await answer_if_any(running.port, context)
                assert (b" 200 " in answer) is accepted

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    text = "a client's certificate was refused in the handshake: unsuitable certificate purpose: its extended key usage must have"
    assert warnings == ([] if accepted else [f"{text} clientAuth"])


def as_signed(*usages):
    """A certificate as the signer of CertificateSigningRequests makes it, and its CA."""
    authority = new_ca("ca", NOW)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = asked.public_bytes(serialization.Encoding.PEM)
    signed = sign_request(authority, request, usages, NOW, 3600, refused_group="system:masters")
    return authority.cert_pem, KeyPair(signed, pem_key(key))


def with_critical_policies():
    from tests.authentication.test_x509 import CLIENT_AUTH, IS_CA, POLICIES, Issued

    span = {"start": NOW - 60, "end": NOW + 3600}
    root = Issued("ca", extensions=[IS_CA], **span)
    leaf = Issued("alice", root, extensions=[CLIENT_AUTH, POLICIES], **span)
    return root.pem, KeyPair(leaf.pem, pem_key(leaf.key))


CERTIFICATES = {
    "signed, client auth": lambda: as_signed("client auth"),
    "signed, key encipherment": lambda: as_signed("client auth", "key encipherment"),
    "signed, digital signature": lambda: as_signed("client auth", "digital signature"),
    "signed, both": lambda: as_signed("client auth", "digital signature", "key encipherment"),
    "critical policies": with_critical_policies,
}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("make", CERTIFICATES.values(), ids=CERTIFICATES)
async def test_certificates_that_go_accepts(make, version, tmp_path):
    """In the handshake, and in the verification after it."""
    root, pair = make()
    async with Running() as running:
        running.tls.update(client_ca_pem=root)
        context = tls_context(CA.cert_pem, alpn=["http/1.1"], client=pair, tmp_path=tmp_path)
        context.maximum_version = version
        assert b" 200 " in await answer_if_any(running.port, context)
        assert verify(running.app.peers[0], Roots.from_pem(root), NOW).common_name == "alice"


GARBAGE = {
    "plain HTTP to the TLS port": GET % b"/",
    "noise": bytes(range(256)) * 4,
    "nothing": b"",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_broken_handshakes_are_silent(factory, garbage, caplog):
    async def main():
        async with Running() as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(garbage)
            if garbage:
                await asyncio.wait_for(reader.read(), HANG_SECONDS)
            await close(writer)
            assert b"200" in await http1(running.port, GET % b"/", tls_context(CA.cert_pem, alpn=["http/1.1"]))

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("first", ["AES128", "AES256"])
async def test_the_client_s_order_of_suites(first):
    """Go's clients have AES-128 first, which is faster. Python can say an order for TLS 1.2 alone."""
    async with Running() as running:
        context = tls_context(CA.cert_pem)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        second = {"AES128": "AES256", "AES256": "AES128"}[first]
        context.set_ciphers(f"ECDHE+{first}:ECDHE+{second}")
        _, writer = await asyncio.open_connection("127.0.0.1", running.port, ssl=context, server_hostname="localhost")
        assert first in writer.get_extra_info("cipher")[0].replace("-", "")
        await close(writer)

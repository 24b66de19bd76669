"""Certificates that a TLS library lets pass and that are no holder's: short keys, authorities, purposes, chains."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from heddle.controller.pki.authority import Authority, crossed, key_pem, new_authority, new_key
from heddle.foundation.certificate import PeerRefusedError, is_of_authority, peer_in
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls
from tests.support.certificates import files_of

NOW = datetime.now(UTC)
BLUE = new_authority("blue", now=NOW)
NEXT = new_authority("blue", now=NOW)
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
KEY = new_key()


def made(by=BLUE, key=KEY, *, ca=None, path_length=None, usages=(CLIENT,), name="agent:a"):
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(by.certificate.subject)
    builder = builder.public_key(key.public_key()).serial_number(7)
    builder = builder.not_valid_before(NOW - timedelta(hours=1)).not_valid_after(NOW + timedelta(hours=1))
    uri = x509.UniformResourceIdentifier("spiffe://heddle/blue/agent/a")
    builder = builder.add_extension(x509.SubjectAlternativeName([uri]), critical=False)
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(by.key, SHA256())


def pem(*certificates):
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


@pytest.mark.parametrize("wanted", [{}, {"ca": False}, {"usages": (ExtendedKeyUsageOID.SERVER_AUTH,)}])
def test_a_holder_s_certificate_is_read(wanted):
    assert peer_in(pem(made(**wanted))).identity.name == "a"


def test_an_rsa_key_needs_2048_bits():
    for bits, is_read in ((1024, False), (2047, False), (2048, True)):
        certificate = pem(made(key=rsa.generate_private_key(65537, bits)))
        if is_read:
            assert peer_in(certificate).identity.name == "a"
        else:
            with pytest.raises(PeerRefusedError, match=f"RSA key of {bits} bits"):
                peer_in(certificate)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"ca": True}, "of an authority"),
        ({"ca": True, "path_length": 0}, "of an authority"),
        ({"usages": ()}, "without an extended key usage"),
        ({"usages": (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)}, "neither TLS client"),
        ({"usages": (ExtendedKeyUsageOID.CODE_SIGNING,)}, "neither TLS client"),
    ],
)
def test_a_certificate_for_something_else_is_refused(wanted, why):
    with pytest.raises(PeerRefusedError, match=why):
        peer_in(pem(made(**wanted)))


def authority_of(certificate):
    return Authority(certificate, KEY)


CROSS = crossed(NEXT, BLUE, now=NOW)
FOREIGN_CROSS = crossed(NEXT, new_authority("blue", now=NOW), now=NOW)
LIKE_CROSS = made(ca=True, path_length=0, usages=(), name="authority:blue")
CHAINS = {
    "by the authority itself": (made(), (), True),
    "by another": (made(NEXT), (), False),
    "by the next one, with its cross certificate": (made(NEXT), (CROSS,), True),
    "by the next one, with its own certificate": (made(NEXT), (NEXT.certificate,), False),
    "by the next one, crossed by another": (made(NEXT), (FOREIGN_CROSS,), False),
    "by an intermediate": (
        made(authority_of(made(ca=True, usages=(), name="inter"))), (made(ca=True, usages=(), name="inter"),), False,
    ),
    "by an intermediate of length 0": (
        made(authority_of(made(ca=True, path_length=0, usages=(), name="inter"))),
        (made(ca=True, path_length=0, usages=(), name="inter"),), False,
    ),
    "by an intermediate of the authority's name that may have more below": (
        made(authority_of(LIKE_CROSS)), (made(ca=True, path_length=1, usages=(), name="authority:blue"),), False,
    ),
    "by a holder": (made(authority_of(made())), (made(),), False),
    "with a chain that is too long": (made(NEXT), (CROSS,) * 40, False),
}  # fmt: skip


@pytest.mark.parametrize(("leaf", "others", "is_ours"), CHAINS.values(), ids=CHAINS)
def test_a_chain_is_by_the_authority_or_by_its_cross_certificate(leaf, others, is_ours):
    for certificate in (pem(leaf), ssl.PEM_cert_to_DER_cert(pem(leaf).decode())):
        assert is_of_authority(certificate, pem(leaf, *others) if others else b"", pem(BLUE.certificate)) is is_ours


def test_what_has_passed_once_stays_good_for_its_sessions(tmp_path):
    own = Tls(files_of(BLUE, Role.CONTROLLER, "c1", tmp_path), pytest.fail)
    before, other = pem(made()), pem(made(name="agent:other"))
    assert own.admitted(before).identity.name == "a"
    files_of(NEXT, Role.CONTROLLER, "c1", tmp_path)
    assert own.admitted(before).identity.name == "a"
    with pytest.raises(PeerRefusedError, match=r"intermediate authority that tls\.ca has not"):
        own.admitted(other)


def test_a_listener_refuses_what_openssl_has_verified_by_an_intermediate(tmp_path):
    inter = made(ca=True, usages=(), name="inter")
    own = Tls(files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "own"), pytest.fail)
    for leaf, other, why in ((made(NEXT), CROSS, ""), (made(authority_of(inter)), inter, "intermediate authority")):
        (tmp_path / "chain").write_bytes(key_pem(KEY) + pem(leaf, other))
        client = ssl.create_default_context(cadata=pem(BLUE.certificate).decode())
        client.load_cert_chain(tmp_path / "chain")
        connection = handshake(own.server_context(), client)
        if why:
            with pytest.raises(PeerRefusedError, match=why):
                own.peer(connection)
        else:
            assert own.peer(connection).identity.name == "a"


def handshake(server, client):
    """Return the server's end of a TLS connection in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname="localhost"), server.wrap_bio(up, down, server_side=True)]
    for end in ends * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ends[1]

"""What an authority issues, checked by OpenSSL and by the rules of names."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.error import InputError
from heddle.controller.pki.authority import CLOCK_SKEW, LIFETIME, issued, new_authority, new_key, revocations
from heddle.foundation.certificate import PeerRefusedError, denied_serials, peer_in, serial_text
from heddle.foundation.identity import Identity, Role

NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)
BLUE = new_authority("blue", now=NOW)
KEY = new_key()
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}", fullmatch=True)
SERIALS = st.integers(min_value=1, max_value=(1 << 159) - 1)


def certificate(identity, **wanted):
    hosts = {"ips": [ip_address("127.0.0.1")]} if identity.role.serves else {}
    return issued(BLUE, identity, KEY.public_key(), **{"now": NOW, **hosts, **wanted})


@given(st.sampled_from(Role), NAMES)
def test_the_identity_that_was_issued_is_read_back(role, name):
    made, wanted = certificate(Identity("blue", role, name)), Identity("blue", role, name)
    for encoding in (Encoding.PEM, Encoding.DER):
        peer = peer_in(made.public_bytes(encoding))
        assert (peer.identity, peer.serial, peer.not_after) == (wanted, made.serial_number, NOW + LIFETIME)
    assert made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == f"{role}:{name}"
    assert made.not_valid_before_utc == NOW - CLOCK_SKEW


@pytest.mark.parametrize("role", Role)
def test_only_those_who_serve_may_serve(role):
    usage = certificate(Identity("blue", role, "x")).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert ExtendedKeyUsageOID.CLIENT_AUTH in usage
    assert (ExtendedKeyUsageOID.SERVER_AUTH in usage) is (role in (Role.CONTROLLER, Role.SERVICE))


def test_serial_numbers_are_random_and_long():
    serials = [certificate(Identity("blue", Role.AGENT, "a")).serial_number for _ in range(8)]
    assert len(set(serials)) == len(serials)
    assert max(serials).bit_length() > 128


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"identity": Identity("red", Role.AGENT, "a")}, "this authority is of fabric blue"),
        ({"identity": Identity("blue", Role.CONTROLLER, "c"), "ips": []}, "--dns, --ip"),
        ({"identity": Identity("blue", Role.AGENT, "a"), "dns": ["c1"]}, "only a controller or service"),
        ({"identity": Identity("blue", Role.AGENT, "a"), "lifetime": timedelta(days=4000)}, "heddle pki rotate"),
        ({"identity": Identity("blue", Role.CONTROLLER, "c"), "dns": ["käse"]}, "ASCII"),
    ],
)
def test_what_may_not_be_issued_is_refused(wanted, text):
    with pytest.raises(InputError, match=text):
        certificate(**wanted)


@given(st.sets(SERIALS, max_size=5))
def test_revocations_are_signed_and_valid_as_long_as_the_authority(serials):
    made = revocations(BLUE, serials, now=NOW)
    assert {one.serial_number for one in made} == serials
    assert made.is_signature_valid(BLUE.key.public_key())
    assert made.next_update_utc == BLUE.certificate.not_valid_after_utc


@given(st.sets(SERIALS, max_size=20), st.booleans())
def test_a_deny_list_is_read_as_it_was_written(serials, with_colons):
    lines = ["# a comment", ""]
    for serial in serials:
        text = serial_text(serial)
        lines.append(":".join(text[i : i + 2] for i in range(0, len(text), 2)) if with_colons else f"{text}  # why")
    assert denied_serials("\n".join(lines)) == serials


def test_a_line_that_is_no_serial_is_refused_with_its_number():
    with pytest.raises(ValueError, match="line 2"):
        denied_serials("AB\nleaf1\n")


@given(st.binary(max_size=200))
def test_bytes_that_are_no_certificate_are_refused(data):
    with pytest.raises(PeerRefusedError):
        peer_in(data)
    with pytest.raises(PeerRefusedError):
        peer_in(b"-----BEGIN CERTIFICATE-----\n" + data)


def _signed(*names):
    made = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([]))
    made = made.public_key(KEY.public_key()).serial_number(1).not_valid_before(NOW).not_valid_after(NOW + LIFETIME)
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(KEY, SHA256()).public_bytes(Encoding.DER)


URI = x509.UniformResourceIdentifier


@pytest.mark.parametrize(
    "names",
    [
        (),
        (x509.DNSName("leaf1"),),
        (URI("spiffe://heddle/blue/agent/a"), URI("spiffe://heddle/blue/operator/a")),
        (URI("spiffe://heddle/blue/agent/a"), URI("https://example.net")),
        (URI("spiffe://other/blue/agent/a"),),
        (URI("spiffe://heddle/blue/root/a"),),
        (URI("spiffe://heddle/blue/agent/a/b"),),
        (URI("spiffe://heddle/blue/agent/"),),
    ],
)
def test_a_certificate_without_exactly_one_identity_names_no_one(names):
    with pytest.raises(PeerRefusedError):
        peer_in(_signed(*names))


def test_openssl_accepts_the_authority():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=BLUE.certificate.public_bytes(Encoding.DER))
    assert context.cert_store_stats()["x509_ca"] == 1

"""Read certificates, keys and deny lists: the identity of a holder is the one SPIFFE URI of its certificate.

A certificate that a TLS library has verified is still read here: the library checks signatures and dates, and knows
neither fabrics and roles nor our deny list. It also lets chains by any intermediate authority pass, and gRPC's lets
short keys pass.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from heddle.foundation.identity import SCHEME, Identity, identity_in

_SERIAL = re.compile(r"(?:0x)?([0-9A-Fa-f]{1,40})")  # RFC 5280 4.1.2.2: at most 20 bytes
_CACHED_PEERS = 4096
MAX_CHAIN_BYTES = 16 << 10
"""Of a chain by a cross certificate: two certificates of `heddle pki` are 2 KB."""
MIN_RSA_BITS = 2048
_USAGES = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH})
_UNREADABLE = (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.InvalidVersion,
               x509.UnsupportedGeneralNameType)  # fmt: skip


class CertificateError(ValueError):
    """A certificate, key or deny list that cannot be used; the text is one line."""


class PeerRefusedError(CertificateError):
    """A certificate whose holder is refused: no identity, another fabric's, a wrong role, or denied."""


class Peer(NamedTuple):
    """The holder of a certificate, as the certificate names it."""

    identity: Identity
    serial: int
    not_after: datetime


class OwnCertificate(NamedTuple):
    """A checked certificate with its chain, key and authorities, as PEM."""

    peer: Peer
    chain: bytes
    key: bytes
    authorities: bytes


@lru_cache(_CACHED_PEERS)
def peer_in(certificate: bytes) -> Peer:
    """Return the holder of a certificate, PEM (the first of a chain) or DER; raises PeerRefusedError."""
    try:
        return _peer(_loaded_peer(certificate))
    except PeerRefusedError:
        raise
    except _UNREADABLE as error:
        raise PeerRefusedError(f"unreadable certificate: {_line(error)}") from None


def is_of_authority(certificate: bytes, chain: bytes, authorities: bytes) -> bool:
    """Return whether an authority issued a certificate (PEM or DER) itself, or its successor in a rotation did.

    `chain` is what the peer sent, `authorities` are those that are trusted, both PEM. The successor's certificate by
    the authority, of `heddle pki rotate`, is in the chain; any other intermediate authority counts for nothing.
    """
    first, trusted = _loaded_peer(certificate), _loaded(authorities, "ca")
    if _are_of([first], trusted):
        return True
    try:
        return 0 < len(chain) <= MAX_CHAIN_BYTES and _are_of([first, *_loaded(chain, "chain")], trusted)
    except CertificateError:
        return False


def _loaded_peer(certificate: bytes) -> x509.Certificate:
    is_pem = certificate.lstrip().startswith(b"-----")
    return (x509.load_pem_x509_certificate if is_pem else x509.load_der_x509_certificate)(certificate)


def _are_of(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Return whether the first of a chain is of an authority, or of its successor whose cross certificate follows."""
    first, *others = chain
    crossed = [one for one in others if any(_is_cross(one, by) for by in authorities)]
    return any(_issued(first, by) for by in (*authorities, *crossed))


def _is_cross(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether a certificate is that of an authority's successor, as `heddle pki rotate` has it signed."""
    try:
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, *_UNREADABLE):
        return False
    names = [one.subject.get_attributes_for_oid(NameOID.COMMON_NAME) for one in (certificate, authority)]
    is_of_same_fabric = bool(names[0]) and names[0] == names[1]
    return limits.ca and limits.path_length == 0 and is_of_same_fabric and _issued(certificate, authority)


def own_certificate(chain: bytes, key: bytes, authorities: bytes) -> OwnCertificate:
    """Check that a certificate has an identity, that the key is its own and an authority issued it.

    All are PEM. Dates are not checked: a peer does so with its own clock. Raises CertificateError.
    """
    certificates, trusted = _key_pair(chain, key), _loaded(authorities, "ca")
    if not _are_of(certificates, trusted):
        raise CertificateError("certificate: issued by no authority of ca")
    return OwnCertificate(_peer(certificates[0]), chain, key, authorities)


def key_pair_end(chain: bytes, key: bytes, authorities: bytes) -> datetime:
    """Return when a certificate ends that shows no identity of a fabric, after the check that the key is its own.

    All are PEM; another authority than that of the peers may have issued it. Raises CertificateError.
    """
    _loaded(authorities, "ca")
    return _key_pair(chain, key)[0].not_valid_after_utc


def denied_serials(text: str) -> frozenset[int]:
    """Return the serial numbers of a deny list: hexadecimal, a line each; `#` begins a comment.

    Colons between the digits are allowed, as OpenSSL prints them. Raises CertificateError with the line's number.
    """
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if content:
            serial = _SERIAL.fullmatch(content.replace(":", ""))
            if serial is None:
                raise CertificateError(
                    f"line {number}: a serial number in hexadecimal expected, as `heddle pki` writes"
                )
            found.add(int(serial[1], 16))
    return frozenset(found)


def serial_text(serial: int) -> str:
    """Return a serial number as deny lists and `openssl x509 -serial` show it: whole bytes in hexadecimal."""
    digits = f"{serial:X}"
    return digits.zfill(len(digits) + len(digits) % 2)


def _peer(certificate: x509.Certificate) -> Peer:
    """Return the holder; a certificate with two SPIFFE URIs names no one (SPIFFE X.509-SVID 2)."""
    _check_kind(certificate)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise PeerRefusedError("certificate without an identity: it has no subject alternative name") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise PeerRefusedError(f"certificate with {len(uris)} URIs: exactly one {SCHEME}… names an identity")
    try:
        identity = identity_in(uris[0])
    except ValueError as error:
        raise PeerRefusedError(_line(error)) from None
    return Peer(identity, certificate.serial_number, certificate.not_valid_after_utc)


def _check_kind(certificate: x509.Certificate) -> None:
    """Raise PeerRefusedError for what is no certificate of a holder (RFC 5280 4.2.1.9, 4.2.1.12), or a short key."""
    try:
        if certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            raise PeerRefusedError("certificate of an authority (CA): a holder's is needed")
    except x509.ExtensionNotFound:
        pass
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        raise PeerRefusedError("certificate without an extended key usage: it is not for TLS") from None
    if not _USAGES & set(usages):
        raise PeerRefusedError("certificate whose extended key usage is neither TLS client nor TLS server")
    key = certificate.public_key()
    if isinstance(key, RSAPublicKey) and key.key_size < MIN_RSA_BITS:
        raise PeerRefusedError(
            f"certificate with an RSA key of {key.key_size} bits; at least {MIN_RSA_BITS} are needed"
        )


def _loaded(pem: bytes, what: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CertificateError(f"{what}: no PEM certificate") from None


def _key_pair(chain: bytes, key: bytes) -> list[x509.Certificate]:
    certificates = _loaded(chain, "certificate")
    try:
        private = load_pem_private_key(key, password=None)
    except (ValueError, TypeError):  # TypeError: an encrypted one
        raise CertificateError("key: no PEM private key without a password") from None
    if _public(private.public_key()) != _public(certificates[0].public_key()):
        raise CertificateError("key: of another certificate")
    return certificates


def _public(key: object) -> bytes:
    written: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return written


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

"""Issue certificates: an authority for a fabric, a certificate for an identity, and lists of revoked ones (RFC 5280).

Keys are ECDSA P-256, which OpenSSL, BoringSSL and Go all accept. Time is an argument. A new authority is also signed by
the one that it replaces: a peer that trusts only the old one accepts what the new one issues, so that a rotation
needs no moment at which all files change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from heddle.controller.model.error import InputError
from heddle.foundation.identity import Identity, Role

CLOCK_SKEW = timedelta(minutes=5)
"""A certificate is valid from this long before its issue: the peers' clocks differ."""
AUTHORITY_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(hours=24)
_WITH_VTEPS = (Role.AGENT, Role.GATEWAY)
_CN = "authority:"


@dataclass(frozen=True, slots=True)
class Authority:
    """A fabric's authority: its self-signed certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def fabric(self) -> str:
        """Return the name of the fabric."""
        return fabric_in(self.certificate)


def fabric_in(certificate: x509.Certificate) -> str:
    """Return the fabric of an authority's certificate; raises InputError."""
    name = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    text = str(name[0].value) if name else ""
    if not text.startswith(_CN):
        raise InputError("no certificate of an authority of `heddle pki init`")
    return text.removeprefix(_CN)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM (PKCS #8), without a password: its file's mode protects it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_authority(fabric: str, *, now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Authority:
    """Return a new authority of a fabric; each has a subject of its own, by which its certificates name it."""
    key, serial = new_key(), x509.random_serial_number()
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, _CN + fabric),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{serial:x}"),
        ]
    )
    made = _builder(subject, key.public_key(), now, lifetime, serial).issuer_name(subject)
    made = _as_authority(made, path_length=1)  # the next one, by this one; then a holder
    return Authority(made.sign(key, SHA256()), key)


def crossed(new: Authority, old: Authority, *, now: datetime) -> x509.Certificate:
    """Return the new authority's certificate as the old one signs it, valid as long as the old one's."""
    end = min(new.certificate.not_valid_after_utc, old.certificate.not_valid_after_utc)
    serial = x509.random_serial_number()
    made = _builder(new.certificate.subject, new.key.public_key(), now, end - now, serial)
    made = made.issuer_name(old.certificate.subject).add_extension(_key_id_of(old), critical=False)
    return _as_authority(made, path_length=0).sign(old.key, SHA256())


def issued(
    authority: Authority,
    identity: Identity,
    public_key: ec.EllipticCurvePublicKey,
    *,
    now: datetime,
    lifetime: timedelta = LIFETIME,
    dns: Sequence[str] = (),
    ips: Sequence[IPv4Address | IPv6Address] = (),
) -> x509.Certificate:
    """Return a certificate for a holder; `dns` and `ips` are where clients reach a server.

    `ips` of an agent or gateway are VTEPs that it may speak for. Only controllers and services get a certificate for
    the server's end of TLS, so that no stolen certificate of a switch, agent or tenant can stand in for the controller.
    Raises InputError.
    """
    if identity.fabric != authority.fabric:
        raise InputError(f"{identity.uri}: this authority is of fabric {authority.fabric}")
    if dns and not identity.role.serves:
        raise InputError(f"{identity.uri}: only a controller or service has DNS names")
    if ips and not (identity.role.serves or identity.role in _WITH_VTEPS):
        raise InputError(f"{identity.uri}: only a controller or service has addresses, and an agent or gateway VTEPs")
    if identity.role.serves and not (dns or ips):
        raise InputError(f"{identity.uri}: needs the DNS names or addresses that clients connect to (--dns, --ip)")
    if now + lifetime > authority.certificate.not_valid_after_utc:
        end = f"{authority.certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        raise InputError(
            f"the authority ends {end}, before that certificate would; `heddle pki rotate` makes a new one"
        )
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if identity.role.serves else [])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.common_name)])
    return (
        _builder(subject, public_key, now, lifetime, x509.random_serial_number())
        .issuer_name(authority.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_names(identity, dns, ips), critical=False)
        .add_extension(_key_id_of(authority), critical=False)
        .sign(authority.key, SHA256())
    )


def revocations(authority: Authority, serials: Iterable[int], *, now: datetime) -> x509.CertificateRevocationList:
    """Return the list of revoked serials for servers that read no deny list: mosquitto and etcd.

    It is valid as long as the authority: a broker refuses everyone once its list has ended.
    """
    made = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(now - CLOCK_SKEW)
        .next_update(authority.certificate.not_valid_after_utc)
        .add_extension(x509.CRLNumber(int(now.timestamp() * 1000)), critical=False)
        .add_extension(_key_id_of(authority), critical=False)
    )
    for serial in sorted(serials):
        one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        made = made.add_revoked_certificate(one)
    return made.sign(authority.key, SHA256())


def _builder(
    subject: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta, serial: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _as_authority(builder: x509.CertificateBuilder, path_length: int) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(ca=True, path_length=path_length)
    return builder.add_extension(constraints, critical=True).add_extension(
        _key_usage(signs_certificates=True), critical=True
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_id_of(authority: Authority) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())


def _names(
    identity: Identity, dns: Sequence[str], ips: Sequence[IPv4Address | IPv6Address]
) -> x509.SubjectAlternativeName:
    try:
        hosts = [x509.DNSName(name) for name in dns]
    except ValueError:
        raise InputError(f"DNS names are ASCII (punycode for others): {', '.join(dns)!r}") from None
    return x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier(identity.uri), *hosts, *(x509.IPAddress(ip) for ip in ips)]
    )

"""Certificates of a cluster: an authority of its own, and one certificate for each role.

The authority's key exists only while these are made, and is never written: no role can be added later. A certificate
names its role and its cluster, and nothing of any machine, so it is valid wherever its holder runs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["ROLES", "VALID_DAYS", "Credentials", "Role", "can_serve", "holds_from_to", "make_credentials", "name_of"]

Role = Literal["head", "worker", "client"]
"""Role in a cluster: the head that listens, a worker, or a client program; the latter two connect to it."""

ROLES: tuple[Role, ...] = ("head", "worker", "client")

VALID_DAYS = 3 * 365
"""Days for which certificates are valid by default: far longer than any head runs."""

_DRIFT = timedelta(days=1)
"""Time by which certificates are valid before they are made: for nodes whose clock is behind ours."""

_SERVES = bytes.fromhex("06082b06010505070301")
"""The purpose "TLS server", 1.3.6.1.5.5.7.3.1, as it stands in a certificate."""


class Credentials(msgspec.Struct, frozen=True):
    """Credentials of one role: its certificate and key, and the certificate of the authority that made them, as PEM.

    The key is never shown by `repr`.
    """

    authority: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        return f"Credentials(authority={self.authority!r}, certificate={self.certificate!r})"


def name_of(role: Role, cluster: str) -> str:
    """The one name in a certificate. It looks like a host's, so that TLS itself compares it; it is never looked up."""
    return f"{role}.{cluster}.grainlike"


def make_credentials(
    cluster: str, *, days: float = VALID_DAYS, begin: datetime | None = None
) -> dict[Role, Credentials]:
    """Make the credentials of every role of a new cluster, good for `days` from `begin` (default: now).

    Takes about a millisecond. `cryptography` is loaded here, by those alone who make credentials.

    Example::

        server_tls("c1", make_credentials("c1")["head"])
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    begin = datetime.now(UTC) if begin is None else begin
    period = (begin - _DRIFT, begin + timedelta(days=days))
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(cluster, authority_key, period)
    made: dict[Role, Credentials] = {}
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(role, cluster, key, authority, authority_key, period)
        made[role] = Credentials(_pem(authority), _pem(certificate), _key_pem(key))
    return made


def can_serve(credentials: Credentials) -> bool:
    """Return whether the certificate is good for the end of a connection that listens: a head's is, and a worker's
    unless it was made before workers had data servers. Raises `ValueError` for what is no certificate.
    """
    import ssl

    # By its bytes: `cryptography` takes longer to load than all else that a worker does before it has joined.
    return _SERVES in ssl.PEM_cert_to_DER_cert(credentials.certificate)


def holds_from_to(credentials: Credentials) -> tuple[datetime, datetime]:
    """Return when the certificate begins and ends to be valid. Raises `ValueError` for an invalid one."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(credentials.certificate.encode())
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _authority(cluster: str, key: EllipticCurvePrivateKey, period: tuple[datetime, datetime]) -> x509.Certificate:
    from cryptography import x509

    name = _subject(f"authority.{cluster}.grainlike")
    builder = _builder(name, name, key, key, period)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _sign(builder.add_extension(_usage(signs_certificates=True), critical=True), key)


def _certificate(
    role: Role,
    cluster: str,
    key: EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
    period: tuple[datetime, datetime],
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    name = name_of(role, cluster)
    purposes = {
        "head": [ExtendedKeyUsageOID.SERVER_AUTH],
        "worker": [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH],  # the latter for its data server
        "client": [ExtendedKeyUsageOID.CLIENT_AUTH],
    }
    builder = _builder(_subject(name), authority.subject, key, authority_key, period)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes[role]), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return _sign(builder, authority_key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    issuer_key: EllipticCurvePrivateKey,
    period: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(period[0])
        .not_valid_after(period[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _subject(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

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


def _sign(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

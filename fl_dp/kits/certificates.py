"""X.509 certificates for TLS: the authority's own, and the server's, which the authority signs."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fl_dp.errors import ConfigError
from fl_dp.kits.keys import check_own, load_private, save_private, write_own

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SLACK = timedelta(days=1)  # clocks of sites may be behind


def make_authority(name: str, days: float, certificate: Path, key: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"fl_dp federation {name}")
    builder = (
        _builder(subject, subject, private.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
    )
    _write(builder.sign(private, hashes.SHA256()), private, certificate, key)


def make_server(
    names: Sequence[str], days: float, authority: Path, authority_key: Path, certificate: Path, key: Path
) -> None:
    """Write the server's certificate and key. It expires with the authority's certificate at the latest.

    names: the server's hosts and addresses; loopback is always added.
    """
    issuer, signer = load_certificate(authority), load_private(authority_key, ec.EllipticCurvePrivateKey)
    private = ec.generate_private_key(ec.SECP256R1())
    hosts = list(dict.fromkeys([*names, *LOOPBACK]))
    builder = (
        _builder(_subject("fl_dp server"), issuer.subject, private.public_key(), days, issuer)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    _write(builder.sign(signer, hashes.SHA256()), private, certificate, key)


def load_certificate(path: Path) -> x509.Certificate:
    """The certificate in `path`; ConfigError if there is none."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a readable certificate: {error}.") from None


def check_in_time(path: Path, now: datetime | None = None, *, remedy: str = "fl-dp provision") -> datetime:
    """When the certificate expires; ConfigError if it has. remedy: what makes a new one, for the message."""
    ends = load_certificate(path).not_valid_after_utc
    if (now or datetime.now(UTC)) >= ends:
        raise ConfigError(f"{path}: the certificate expired on {ends:%Y-%m-%d}; make a new one: {remedy}.")
    return ends


def check_text(text: str) -> x509.Certificate:
    """The certificate in a PEM text; ValueError if it is none."""
    return x509.load_pem_x509_certificate(text.encode("ascii"))


def check_pair(certificate: Path, key: Path, authority: str) -> None:
    """ConfigError unless `authority` (PEM text) has signed the certificate, and `key` is its key."""
    found = load_certificate(certificate)
    check_own(key)
    try:
        found.verify_directly_issued_by(check_text(authority))
    except (ValueError, TypeError, InvalidSignature):
        raise ConfigError(
            f"{certificate}: signed by an authority other than the roster's; copy the whole kit again."
        ) from None
    if found.public_key() != load_private(key, ec.EllipticCurvePrivateKey).public_key():
        raise ConfigError(f"{key}: not the key of {certificate.name}; copy the whole kit again.")


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    days: float,
    signer: x509.Certificate | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    ends = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(ends if signer is None else min(ends, signer.not_valid_after_utc))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    signed: x509.Certificate, private: ec.EllipticCurvePrivateKey, certificate: Path, key: Path
) -> None:
    save_private(private, key)
    write_own(certificate, signed.public_bytes(Encoding.PEM))

"""Certificates for a test: an authority of its own, a server's for 127.0.0.1, a client's, and a stranger's."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """Paths of PEM files."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    stranger_ca: Path


def make_certificates(folder: Path) -> Certificates:
    """Write them to a folder. The client is called `shoal`."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, authority = _make("authority", None, None)
    stranger = _make("stranger", None, None)[1]
    paths = {"ca": _write(folder / "ca.pem", authority), "stranger_ca": _write(folder / "stranger.pem", stranger)}
    for name, subject in (("server", "localhost"), ("client", "shoal")):
        key, certificate = _make(subject, authority_key, authority)
        paths[name] = _write(folder / f"{name}.pem", certificate)
        paths[f"{name}_key"] = folder / f"{name}.key"
        paths[f"{name}_key"].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    return Certificates(**paths)


def _make(
    subject: str, issuer_key: ec.EllipticCurvePrivateKey | None, issuer: x509.Certificate | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer_key or key).public_key()), critical=False
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=issuer is None, crl_sign=issuer is None, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )  # fmt: skip
    return key, builder.sign(issuer_key or key, hashes.SHA256())


def _write(path: Path, certificate: x509.Certificate) -> Path:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path

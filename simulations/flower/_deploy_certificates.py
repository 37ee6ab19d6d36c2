"""What a local deployment proves itself by: an authority, the SuperLink's certificate, and two keys for each node."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

AUTHORITY = "ca.crt"  # the authority's certificate, which whoever asks the SuperLink must have
CERTIFICATE = "server.crt"  # the SuperLink's
KEY = "server.key"  # the SuperLink's own
DAYS = 365  # that a certificate is valid for
SKEW = timedelta(days=1)  # a certificate is valid for whoever's clock is a little behind


def write_certificates(folder: Path, hosts: Iterable[str]) -> None:
    """Write a local deployment's certificates into a folder: an authority, and what it signs for the SuperLink.

    `hosts` are the names it is signed for; the authority's own key is kept nowhere.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedpriv, for trying")])
    names = list[x509.GeneralName]()
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(names[0].value))])
    root = _begun(authority, authority, authority_key.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    signs_certificates = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    root = root.add_extension(signs_certificates, critical=True)
    signed = _begun(own, authority, key.public_key())
    signed = signed.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    signed = signed.add_extension(x509.SubjectAlternativeName(names), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    signed = signed.add_extension(issuer, critical=False)
    for name, builder in ((AUTHORITY, root), (CERTIFICATE, signed)):
        content = builder.sign(authority_key, hashes.SHA384()).public_bytes(Encoding.PEM)
        (folder / name).write_bytes(content)
    _private(folder / KEY, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def write_node_key(private: Path) -> Path:
    """Write a node's private key for the SuperLink, like ssh-keygen -t ecdsa -b 384; the path of the public one."""
    return _pair(private, ec.generate_private_key(ec.SECP384R1()))


def write_identity(private: Path) -> Path:
    """Write a node's private key for other nodes, as ssh-keygen -t ed25519 would; the path of the public one."""
    return _pair(private, Ed25519PrivateKey.generate())


def _pair(private: Path, key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> Path:
    """Write a node's private key, and beside it the public one as NAME.pub, whose path is given back."""
    _private(private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = private.with_suffix(".pub")
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    return public


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    """What a deployment's two certificates have in common, unsigned: subject, issuer, key, how long they are valid."""
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - SKEW)
    builder = builder.not_valid_after(now + timedelta(days=DAYS))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _private(path: Path, content: bytes) -> None:
    """Write the SuperLink's or a node's private key to a new file, which its owner alone may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)

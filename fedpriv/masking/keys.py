"""Keys that two members agree on over a server they need not trust: X25519 and HKDF-SHA256; AES-256-GCM in transit."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Private = X25519PrivateKey
KEY = 32  # bytes: X25519's and AES-256's
_NONCE = 12  # bytes: GCM's
_TAG = 16  # bytes: GCM's
SEALED = _NONCE + _TAG  # by how much a sealed message is longer


def private_key() -> bytes:
    """A new X25519 private key from the operating system, for a member of one masked sum."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    """The X25519 public key of a private one: what a masked sum's member sends, and a recovered key is checked by."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def opened_key(private: bytes) -> Private:
    """A member's private key as an object, to agree on many keys with: to open it takes as long as to agree."""
    return X25519PrivateKey.from_private_bytes(private)


def agreed_secret(private: Private, public: bytes, salt: bytes, purpose: bytes) -> bytes:
    """The 32 bytes that two members of a masked sum find, and nobody else; ValueError at a point of low order."""
    return derived_key(private.exchange(X25519PublicKey.from_public_bytes(public)), salt, purpose)


def derived_key(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes for one purpose of a masked sum (a letter, a mask), from a secret by HKDF."""
    return HKDF(algorithm=SHA256(), length=KEY, salt=salt, info=purpose).derive(secret)


def sealed_bytes(key: bytes, content: bytes, about: bytes) -> bytes:
    """A letter from one member of a masked sum to another: its content encrypted, and bound to what it is about."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, about)


def unsealed_bytes(key: bytes, message: bytes, about: bytes) -> bytes | None:
    """The content of a letter that `sealed_bytes` wrote; None where it is not by this key and about this."""
    try:
        return AESGCM(key).decrypt(message[:_NONCE], message[_NONCE:], about)
    except (InvalidTag, ValueError):
        return None

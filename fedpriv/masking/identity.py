"""Who a member is, to others that know its key: Ed25519 signatures, so that no server can stand in for a member.

Keys are files as `ssh-keygen -t ed25519` writes them, named by the node's --node-config: `identity`, its private key
without a passphrase, and `peers`, the public keys of all nodes, that of partition p on line p from 0. Both are for its
owner to place: a list that came from the server would be the server's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedpriv.errors import FedprivError, reason

SIGNATURE = 64  # bytes
UNSIGNED = bytes(SIGNATURE)


@dataclass(frozen=True)
class Identity:
    """This node's key and its peers': without them members are whoever the server says."""

    private: Ed25519PrivateKey | None = None  # by which this node signs
    peers: tuple[Ed25519PublicKey, ...] | None = None  # of every node, by partition

    @staticmethod
    def of(config: Mapping[str, Any]) -> Identity:
        """The node's key and its peers', from the files that its --node-config names; both or neither."""
        named = [str(config[name]) for name in ("identity", "peers") if name in config]
        if not named:
            return Identity()
        if len(named) == 1:
            raise FedprivError("masking: --node-config needs both identity and peers, or neither")
        path = Path(named[0])
        try:
            key = load_ssh_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            why = reason(error)
            raise FedprivError(f"masking: identity: {path}: no key of ssh-keygen -t ed25519 ({why})") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise FedprivError(f"masking: identity: {path}: is of another kind than ssh-keygen -t ed25519 makes")
        path = Path(named[1])
        try:
            found = [load_ssh_public_key(line) for line in path.read_bytes().splitlines() if line.strip()]
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            raise FedprivError(f"masking: peers: {path}: not a public key a line ({reason(error)})") from None
        known = tuple(each for each in found if isinstance(each, Ed25519PublicKey))
        if len(known) != len(found) or len({each.public_bytes_raw() for each in known}) != len(known):
            raise FedprivError(f"masking: peers: {path}: must hold different keys, all of ssh-keygen -t ed25519")
        return Identity(key, known)

    def signed(self, content: bytes) -> bytes:
        """This node's signature of what it says in a masked sum; zeros where it has no key."""
        return self.private.sign(content) if self.private else UNSIGNED

    def knows(self, member: int, content: bytes, signature: bytes) -> bool:
        """Whether that member of a masked sum has signed this; without peers' keys whatever is said is believed."""
        if self.peers is None:
            return True
        try:
            self.peers[member].verify(signature, content)
        except (IndexError, InvalidSignature):
            return False
        return True

"""What goes wrong on purpose: models and attacks that a study names by import path."""

from __future__ import annotations

import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fedpriv.wire import frames


class RaisesOnSome(nn.Module):
    """A linear model that refuses records whose features add up to less than `least`."""

    def __init__(self, least: float = 0.5) -> None:
        super().__init__()
        self.least, self.linear = least, nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and x.sum() < self.least:
            raise RuntimeError("this record cannot be read")
        return self.linear(x.flatten(1))


@dataclass(frozen=True, kw_only=True)
class NotANumber:
    """An update that is not finite."""

    def on_updates(self, updates: Any, view: Any) -> Any:
        return np.full_like(updates, np.nan)


@dataclass(frozen=True, kw_only=True)
class WrongSymbols:
    """Symbols outside the alphabet, which packing cannot hold or the server must refuse."""

    def on_bytes(self, frame: bytes) -> bytes:
        return with_payload(frame, lambda payload: b"\xff" * len(payload))


@dataclass(frozen=True, kw_only=True)
class Forged:
    """Bytes that are not what they should be."""

    how: str

    def on_bytes(self, frame: bytes) -> bytes:
        if self.how == "truncated":
            return frame[: len(frame) // 2]
        if self.how == "empty":
            return b""
        if self.how == "huge":
            return frame * 100
        if self.how == "flipped":
            return frame[:-20] + bytes([frame[-20] ^ 1]) + frame[-19:]
        if self.how == "noise":
            return np.random.default_rng(1).bytes(len(frame))
        if self.how == "twice":
            return frame + frame
        raise ValueError(self.how)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """The frame of the first round, in every round."""

    def on_bytes(self, frame: bytes) -> bytes:
        return _FIRST.setdefault(len(_FIRST) if len(_FIRST) < 1 else 0, frame)


_FIRST: dict[int, bytes] = {}


@dataclass(frozen=True, kw_only=True)
class Hangs:
    """Never ends, once: the marker says that it has happened."""

    marker: str
    seconds: float = 3600.0

    def on_bytes(self, frame: bytes) -> bytes:
        if first_time(self.marker):
            time.sleep(self.seconds)
        return frame


@dataclass(frozen=True, kw_only=True)
class Dies:
    """Takes its process with it, once."""

    marker: str

    def on_bytes(self, frame: bytes) -> bytes:
        if first_time(self.marker):
            os.kill(os.getpid(), 9)
        return frame


def first_time(marker: str) -> bool:
    """Whether nobody has left the marker yet."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def with_payload(frame: bytes, change: Any) -> bytes:
    """The frame of one client with another payload, its checksum made anew as an attacker would."""
    head, checksum = frames._HEAD, frames._CHECKSUM
    client = frame[head.size + checksum.size :][:4]
    rest = client + change(frame[head.size + checksum.size + 4 :])
    return frame[: head.size] + checksum.pack(zlib.crc32(rest, zlib.crc32(frame[: head.size]))) + rest


class Nothing:
    """No attack at all."""


class RaisesForOdd:
    """Fails for some attackers, by what they computed."""

    def on_updates(self, updates: Any, view: Any) -> Any:
        if updates.sum() * 1e6 % 2 < 1:
            raise RuntimeError("this attacker gives up")
        return -updates

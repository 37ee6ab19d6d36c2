"""The records of a run: one JSON line for the run, one a round, one for its end. They hold no times.

A line counts once its newline stands: what follows the last newline was cut off by a kill and is dropped. Floats are
written so that they read back to the same bits; infinity is the word "inf", a loss that ran away may be "nan".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Self

from fedpriv._base.files import replace_file
from fedpriv.errors import FedprivError, natural
from fedpriv.records._lines import FORMAT, TIMING, WORDS, Line, check, check_end, check_round, check_run

__all__ = [
    "FORMAT",
    "Line",
    "Records",
    "Writer",
    "parsed_line",
    "plain_values",
    "read_records",
    "read_timings",
    "record_bytes",
    "truncate_after",
]

File = str | os.PathLike[str]
SPENT = ("epsilon", "mu", "beta", "units", "of_rounds_done")  # what an end says of privacy


@dataclass(frozen=True)
class Records:
    """What a run wrote down: the run itself, its rounds from 1 on, and how it ended, None where it was cut short."""

    header: Line  # the run: its study, mechanism, trust, promise
    rounds: list[Line]  # from 1 on
    end: Line | None  # why it ended, what it cost


class Writer:
    """Appends lines to a file; half a line that a kill left there goes first."""

    def __init__(self, path: File) -> None:
        self.path = path
        try:
            self._file = open(path, "ab")  # noqa: SIM115 - closed by close()
            content = Path(path).read_bytes()
            self._file.truncate(content.rfind(b"\n") + 1)
        except OSError as error:
            raise _unwritable(path, error) from None

    def append(self, line: Mapping[str, Any], durable: bool = False) -> None:
        """Write one line of a run's records, or ledger; it outlives this process, a durable one the machine too."""
        try:
            self._file.write(record_bytes(line))
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def close(self) -> None:
        """Close the file of a run's records, or ledger: no line can be added after."""
        try:
            self._file.close()
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record_bytes(line: Mapping[str, Any]) -> bytes:
    """A line of a run's records as JSON and a newline, its keys in the order given: the same bytes for the same run.

    >>> record_bytes({"round": 1, "loss": 0.1, "epsilon": {"upper": float("inf")}})
    b'{"round":1,"loss":0.1,"epsilon":{"upper":"inf"}}\\n'
    """
    text = json.dumps(plain_values(line), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def parsed_line(text: bytes) -> Line:
    """One line of a run's records, as `record_bytes` writes it, with its numbers as numbers: for who listens to a run.

    >>> parsed_line(b'{"round":1,"epsilon":{"upper":"inf"}}\\n')
    {'round': 1, 'epsilon': {'upper': inf}}
    """
    line: Line = _numbers(json.loads(text))
    return line


def read_records(path: File) -> Records:
    """A run's records.jsonl, checked, for reports and resuming; only a last line cut in half is no error."""
    lines = _lines_of(path)
    if not lines:
        raise FedprivError(f"{path}: holds no records: the first line must describe the run")
    check_run(f"{path}:1", lines[0])
    end = lines[-1] if lines[-1].get("kind") == "end" else None
    rounds = lines[1 : -1 if end is not None else None]
    for number, line in enumerate(rounds, 1):
        check_round(f"{path}:{number + 1}", line, number)
    if end is not None:
        check_end(f"{path}:{len(lines)}", end)
    header = lines[0] | {"bits": _numbers(lines[0]["bits"])}
    spent = {name: _numbers(end[name]) for name in SPENT if name in end} if end else {}
    return Records(header, [_numbers(line) for line in rounds], end and end | spent)


def read_timings(path: File) -> dict[int, Line]:
    """A run's timings.jsonl, by round, for reports and forecasts; of a round that was run again, the last."""
    found = {}
    for number, line in enumerate(_lines_of(path), 1):
        check(f"{path}:{number}", line, TIMING)
        found[line["round"]] = line
    return found


def truncate_after(path: File, last: int) -> None:
    """Cut a resumed run's records down to its first `last` rounds, byte for byte; a kill meanwhile changes nothing."""
    natural(last=last)
    found = len(read_records(path).rounds)
    if found < last:
        raise FedprivError(f"{path}: ends with round {found}, where {last} rounds are to be kept")
    kept = Path(path).read_bytes().split(b"\n")[: last + 1]
    try:
        replace_file(Path(path), b"\n".join([*kept, b""]), mode=Path(path).stat().st_mode & 0o777)
    except OSError as error:
        raise _unwritable(path, error) from None


def _lines_of(path: File) -> list[Line]:
    """Every whole line of a file of records as an object; what follows the last newline was cut off by a kill."""
    try:
        *complete, _ = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise FedprivError(f"{path}: cannot be read ({error.strerror or error})") from None
    lines: list[Line] = []
    for number, text in enumerate(complete, 1):
        try:
            found = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise FedprivError(f"{path}:{number}: not a line of JSON ({str(error).splitlines()[0][:80]})") from None
        if not isinstance(found, dict):
            raise FedprivError(f"{path}:{number}: must be a JSON object, got {str(found)[:40]}")
        lines.append(found)
    return lines


def _refuse(word: str) -> None:
    """Raise where `json` meets NaN or Infinity in a record line, which it would take for numbers."""
    raise ValueError(f'{word} is no number of JSON: "inf" and "nan" are words here')


def plain_values(value: Any) -> Any:
    """A value as record lines have it: Python's own numbers and containers; what is not finite, as a word."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Mapping):
        return {key: plain_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return value


def _numbers(value: Any) -> Any:
    """A value of a record line with its words "inf" and "nan" as numbers again, but for a reason to skip a round."""
    if isinstance(value, dict):
        return {key: item if key == "skipped" else _numbers(item) for key, item in value.items()}
    return WORDS.get(value, value) if isinstance(value, str) else value


def _unwritable(path: File, error: OSError) -> FedprivError:
    """The error that says a run's file of records cannot be written, and why."""
    return FedprivError(f"{path}: cannot be written ({error.strerror or error})")

"""Records of a run: what is written reads back to the same bits, a kill costs half a line at most, damage is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpriv import records
from fedpriv.errors import FedprivError

HEADER: dict[str, Any] = {
    "format": 1, "kind": "run", "study": "0123456789abcdef", "name": "digits", "clients": 1437, "byzantine": 143,
    "dimension": 650, "mechanism": {"kind": "Gaussian", "settings": {"clip": 1.0, "noise": 2.0}},
    "aggregation": {"kind": "Mean"}, "attack": None, "release": None, "trust": "local", "delta": 1e-5, "rounds": 40,
    "client_bytes": 2644, "bits": {"packed": 32.0, "entropy": inf, "masked": None}, "model": "Logistic",
    "test_examples": 360,
}  # fmt: skip


def round_line(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "round", "round": number, "asked": 1437, "answered": 1434, "rejected": {"checksum": 1},
        "failed": {"raised": 2}, "skipped": None, "loss": 0.1 * number, "accuracy": None,
        "epsilon": {"lower": 0.0, "upper": inf, "clt": None}, "bytes_up": 1437 * 2644,
    } | changes  # fmt: skip


END = {"kind": "end", "why": "finished", "rounds": 3, "worst_client": 5, "releases_of_worst": 3,
       "epsilon": {"lower": 1.0, "upper": inf, "clt": None}}  # fmt: skip
WHOLE = [HEADER, round_line(1), round_line(2), round_line(3), END]


def write(path: Path, lines: list[dict[str, Any]] = WHOLE) -> Path:
    with records.Writer(path) as writer:
        for line in lines:
            writer.append(line)
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    found = records.read_records(write(tmp_path / "records.jsonl"))
    assert found == records.Records(HEADER, WHOLE[1:4], END)


@given(value=st.floats(), skipped=st.text(max_size=5) | st.sampled_from(["inf", "nan"]))
def test_every_float_reads_back_to_the_same_bits_and_words_stay_words(
    value: float, skipped: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "floats.jsonl"
    path.unlink(missing_ok=True)
    line = records.read_records(write(path, [HEADER, round_line(1, loss=value, skipped=skipped)])).rounds[0]
    assert line["skipped"] == skipped
    assert isnan(line["loss"]) if isnan(value) else line["loss"].hex() == value.hex()


def test_numpy_numbers_are_written_as_python_s_own() -> None:
    line = {"a": np.float64(0.1), "b": np.int64(3), "c": np.float32(0.5), "d": np.bool_(True), "e": np.float32(inf)}
    assert records.record_bytes(line) == b'{"a":0.1,"b":3,"c":0.5,"d":true,"e":"inf"}\n'


def test_the_same_lines_are_the_same_bytes_and_keep_the_order_of_their_keys() -> None:
    assert records.record_bytes({"z": 1, "a": nan}) == b'{"z":1,"a":"nan"}\n'
    assert records.record_bytes(HEADER) == records.record_bytes(json.loads(json.dumps(HEADER)))


def test_a_line_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    with records.Writer(tmp_path / "records.jsonl") as writer:
        writer.append(HEADER, durable=True)
        assert records.read_records(tmp_path / "records.jsonl").header == HEADER
        writer.append(round_line(1))
        assert len(records.read_records(tmp_path / "records.jsonl").rounds) == 1


@pytest.mark.parametrize("kept", range(0, 1500, 37))
def test_a_file_cut_anywhere_is_read_up_to_its_last_whole_line(kept: int, tmp_path: Path) -> None:
    path = write(tmp_path / "records.jsonl")
    content = path.read_bytes()[:kept]
    path.write_bytes(content)
    whole = content.count(b"\n")
    if not whole:
        with pytest.raises(FedprivError, match=r"records\.jsonl: holds no records"):
            records.read_records(path)
        return
    found = records.read_records(path)
    assert found.rounds == WHOLE[1:4][: whole - 1]
    assert found.end == (END if whole == 5 else None)


def test_a_writer_goes_on_after_half_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "records.jsonl", WHOLE[:3])
    with path.open("ab") as file:
        file.write(b'{"kind":"round","rou')
    write(path, WHOLE[3:])
    assert path.read_bytes() == write(tmp_path / "uninterrupted.jsonl").read_bytes()


def test_a_process_that_is_killed_leaves_every_line_it_had_appended(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    script = f"""
import json, os, signal
from fedpriv.records import Writer
writer = Writer({str(path)!r})
for line in json.loads({json.dumps(WHOLE[:3])!r}):
    writer.append(line)
os.kill(os.getpid(), signal.SIGKILL)
"""
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == -signal.SIGKILL, outcome.stderr
    assert records.read_records(path) == records.Records(HEADER, WHOLE[1:3], None)


@pytest.mark.parametrize("last", [0, 1, 2, 3])
def test_truncation_keeps_the_run_and_its_first_rounds_byte_for_byte(last: int, tmp_path: Path) -> None:
    path = write(tmp_path / "records.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.chmod(0o640)
    records.truncate_after(path, last)
    assert path.read_bytes() == b"".join(lines[: last + 1])
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["records.jsonl"]


def test_truncation_and_writing_on_give_the_file_of_a_run_that_never_stopped(tmp_path: Path) -> None:
    path = write(tmp_path / "records.jsonl", [*WHOLE[:4], END | {"why": "interrupted"}])
    records.truncate_after(path, 2)
    write(path, WHOLE[3:])
    assert path.read_bytes() == write(tmp_path / "uninterrupted.jsonl").read_bytes()


def test_rounds_that_are_not_there_cannot_be_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "records.jsonl")
    before = path.read_bytes()
    with pytest.raises(FedprivError, match="ends with round 3, where 4 rounds are to be kept"):
        records.truncate_after(path, 4)
    assert path.read_bytes() == before


def test_a_truncation_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "records.jsonl")
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FedprivError, match=r"records\.jsonl: cannot be written \(No space left on device\)"):
        records.truncate_after(path, 1)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["records.jsonl"]


def without(line: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != name}


DAMAGED = {
    "a newer format": ([HEADER | {"format": 2}], 1, "format 2, where this version reads 1 to 1"),
    "no format": ([without(HEADER, "format")], 1, "name its format"),
    "no header": ([round_line(1)], 1, "must describe the run"),
    "a header lacking something": ([without(HEADER, "delta")], 1, "lacks 'delta'"),
    "two headers": ([HEADER, HEADER], 2, "must be a round"),
    "a round missing": ([HEADER, round_line(1), round_line(3)], 3, "must be round 2, got 3"),
    "a round twice": ([HEADER, round_line(1), round_line(1)], 3, "must be round 2, got 1"),
    "a round lacking something": ([HEADER, without(round_line(1), "answered")], 2, "lacks 'answered'"),
    "a word for a number": ([HEADER, round_line(1, accuracy="high")], 2, 'accuracy cannot be "high"'),
    "counts that are none": ([HEADER, round_line(1, rejected=["checksum"])], 2, "rejected cannot be"),
    "an epsilon without its lower bound": ([HEADER, round_line(1, epsilon={"upper": 1.0})], 2, "epsilon cannot be"),
    "an epsilon bounded by nothing": (
        [HEADER, round_line(1, epsilon={"lower": 0.0, "upper": None, "clt": None})],
        2,
        "epsilon cannot be",
    ),
    "something after the end": ([HEADER, END, round_line(1)], 2, "an end that nothing follows"),
    "an end that lacks something": ([HEADER, without(END, "why")], 2, "lacks 'why'"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_refused_in_one_line_that_names_file_and_line(damage: str, tmp_path: Path) -> None:
    lines, number, words = DAMAGED[damage]
    path = write(tmp_path / "records.jsonl", lines)
    with pytest.raises(FedprivError) as error:
        records.read_records(path)
    assert str(error.value).startswith(f"{path}:{number}: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'{"kind":"round","loss":NaN}', b"\xff\xfe", b"\0\0", b"[" * 9999])
def test_a_line_in_the_middle_that_is_no_object_is_refused(text: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "records.jsonl", WHOLE[:2])
    path.write_bytes(path.read_bytes() + text + b"\n" + records.record_bytes(round_line(2)))
    with pytest.raises(FedprivError, match=r"records\.jsonl:3: ") as error:
        records.read_records(path)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=r"cannot be read \(No such file"):
        records.read_records(tmp_path / "records.jsonl")
    with pytest.raises(FedprivError, match=r"cannot be written \(No such file"):
        records.Writer(tmp_path / "nowhere" / "records.jsonl")


def test_a_disk_that_is_full_is_said_in_one_line_and_costs_no_line_that_stood(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    script = f"""
import json, resource
from fedpriv.errors import FedprivError
from fedpriv.records import Writer
resource.setrlimit(resource.RLIMIT_FSIZE, (1200, 1200))
writer = Writer({str(path)!r})
try:
    for line in json.loads({json.dumps(WHOLE)!r}) * 9:
        writer.append(line)
except FedprivError as error:
    print(error)
"""
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert outcome.stdout == f"{path}: cannot be written (File too large)\n"
    assert len(records.read_records(path).rounds) >= 2


def test_timings_are_read_by_round_the_last_word_counting(tmp_path: Path) -> None:
    lines = [{"round": 1, "seconds": 2.0, "parts": {"train": 1.5}}, {"round": 2, "seconds": 1, "parts": {}}]
    path = write(tmp_path / "timings.jsonl", [*lines, lines[0] | {"seconds": 3.0}])
    with path.open("ab") as file:
        file.write(b'{"rou')
    assert {number: line["seconds"] for number, line in records.read_timings(path).items()} == {1: 3.0, 2: 1}
    write(path, [{"round": 3, "seconds": "long", "parts": {}}])
    with pytest.raises(FedprivError, match=r"timings\.jsonl:4: seconds cannot be \"long\""):
        records.read_timings(path)

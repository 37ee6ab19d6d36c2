"""`fedpriv estimate` as people use it: what it reads, prints and writes; what it refuses before anything is spent."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

from fedpriv._base import files
from fedpriv.estimation import ESTIMATORS, spelled_name
from fedpriv.randomness.streams import stream
from simulations.cli._estimate_data import records_of
from simulations.command_line import main

BUDGET = ["--epsilon", "5", "--delta", "1e-5"]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """20,000 records of 3 numbers about 7, a twentieth of them far off."""
    data = stream(1, "test sample").standard_normal((20_000, 3)) + 7
    data[:1000] += 4
    np.save(tmp_path / "sample.npy", data)
    return tmp_path / "sample.npy"


def asked(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    status = main(["estimate", *words, "--json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else {}, err


def test_prime_gives_a_mean_a_guarantee_and_what_it_is_made_of(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(sample), "--method", "prime", *BUDGET, "--corruption", "0.05"]
    status, found, err = asked(words, capsys)
    assert status == 0
    assert np.linalg.norm(np.array(found["mean"]) - 7) < 0.2
    assert 4 < found["epsilon"]["upper"] <= 5
    assert found["epsilon"]["lower"] <= found["epsilon"]["upper"]
    assert (found["unit"], found["adjacency"], found["trust"], found["delta"]) == ("record", "replace", "central", 1e-5)
    assert all(own["epsilon"]["upper"] < 5 for own in found["releases"])
    assert (found["records"], found["dimension"], found["failure"]) == (20_000, 3, None)
    assert "20,000 records of 3" in err


def test_the_noise_is_fresh_unless_a_seed_is_asked_for(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(sample), "--method", "dp-mean", *BUDGET]
    fresh = [asked(words, capsys)[1] for _ in range(2)]
    seeded = [asked([*words, "--seed", "3"], capsys)[1] for _ in range(2)]
    assert fresh[0]["mean"] != fresh[1]["mean"]
    assert (fresh[0]["seed"], fresh[0]["generator"]) == (None, "ChaCha20, keyed by the operating system")
    assert seeded[0]["mean"] == seeded[1]["mean"]
    assert seeded[0]["generator"] == "seed 3"
    main(["estimate", *words, "--seed", "3"])
    assert "the noise can be drawn again from the seed" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_the_mean_is_written_where_it_is_asked_for(
    ending: str, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"mean.{ending}"
    _, found, _ = asked([str(sample), "--method", "coordinate-median", "--out", str(out)], capsys)
    mean = np.load(out) if ending == "npy" else np.loadtxt(out, delimiter=",")
    assert mean.tolist() == approx(found["mean"], abs=0)


def test_columns_keep_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "named.csv", tmp_path / "mean.csv"
    file.write_text("height,weight\n1,2\n3,4\n")
    _, found, _ = asked([str(file), "--method", "empirical-mean", "--out", str(out)], capsys)
    assert (found["columns"], found["mean"]) == (["height", "weight"], [2.0, 3.0])
    assert out.read_text() == '"height","weight"\n2.0,3.0\n'


@pytest.mark.parametrize(
    ("text", "expected", "names"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]], None),
        ("x,y\n1,2\n", [[1, 2]], ["x", "y"]),
        ('"x","y"\r\n"1","2"\r\n', [[1, 2]], ["x", "y"]),
        ("\ufeff1,2\n", [[1, 2]], None),
        ("5\n6\n", [[5], [6]], None),
        ("1,inf\nnan,2\n", [[1, np.inf], [np.nan, 2]], None),
        ("\n1e3,-2.5\n\n", [[1000, -2.5]], None),
    ],
)
def test_a_csv_file_is_read_with_a_header_or_without(
    text: str, expected: list[list[float]], names: list[str] | None, tmp_path: Path
) -> None:
    file = tmp_path / "data.csv"
    file.write_text(text, newline="")
    data, found = records_of(str(file))
    assert np.array_equal(data, np.array(expected, float), equal_nan=True)
    assert found == names


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"x,y\n1,\n", "line 2, column 2 (y) must be a number, got nothing"),
        ("a.csv", b"1,2\n3,abc\n", "line 2, column 2 must be a number, got text"),
        ("a.csv", b"1,2\n3\n", "line 2 has 1 field, where 2 were expected"),
        ("a.csv", b"x,y\n1,2,3\n", "the header names 2 columns, but the rows have 3"),
        ("a.csv", b"x,2\n1,3\n", "line 1, column 1 must be a number, got text"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"0.25;3\n0.5;4\n", "a.csv: fields must be separated by commas"),
        ("a.csv", b"0.25\t3\n", "a.csv: fields must be separated by commas"),
        ("a.csv", b"NA,NA\n1,2\n", "line 1 holds no numbers and no names"),
        ("a.csv", b"1\n\n2\n", "line 2 is empty, where a missing number is written nan"),
        ("a.csv", "1,2\n3,١٢\n".encode(), "line 2, column 2 must be a number, got text"),
        ("a.csv", b'1,2\n"3,' + b"4" * 200_000, "is a quotation mark left open?"),
        ("a.npy", b"\x93NUMPY\x01\x00v\x00" + b"{'descr': ('<f8', 'fortran" + b" " * 92, "is no array of numbers"),
        ("a.csv", b"x,y\n", "must hold a table with one row a record"),
        ("a.csv", b"\xff\xfe\x00", "is no text in UTF-8"),
        ("a.npy", b"hello", "is no array of numbers in numpy's format"),
        ("a.npy", b"", "is no array of numbers in numpy's format"),
        ("a.txt", b"1 2", "the name must end in .npy, .csv or .parquet"),
    ],
)
def test_a_file_that_holds_no_records_is_named_with_the_place(
    name: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    status, found, err = asked([str(tmp_path / name), "--method", "empirical-mean", "--quiet"], capsys)
    assert (status, found) == (2, {})
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("array", [np.array([["a"]]), np.zeros((2, 2, 2)), np.array([[1j]]), np.zeros((0, 3))])
def test_an_array_that_is_no_matrix_of_numbers_is_refused(
    array: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "a.npy", array)
    status, _, err = asked([str(tmp_path / "a.npy"), "--method", "empirical-mean", "--quiet"], capsys)
    assert status == 2
    assert "must hold" in err


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    status, _, err = asked([str(tmp_path / "a.parquet"), "--method", "empirical-mean", "--quiet"], capsys)
    assert status == 2
    assert "Parquet needs pyarrow (pip install pyarrow)" in err


def test_parquet_is_read(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": [1.0, None], "y": [3, 4]}), tmp_path / "a.parquet")
    data, names = records_of(str(tmp_path / "a.parquet"))
    assert np.array_equal(data, np.array([[1.0, 3.0], [np.nan, 4.0]]), equal_nan=True)
    assert names == ["x", "y"]


REFUSED = [
    ("--method prime --epsilon 5 --delta 1e-5", "prime needs --corruption"),
    ("--epsilon 5 --corruption 0.1", "prime needs --delta"),
    ("--epsilon 5 --delta 1e-5 --corruption 0.5", "corruption must be between 0 and 1/2"),
    ("--epsilon 5 --delta 1e-5 --corruption nan", "corruption must be finite"),
    ("--epsilon 0 --delta 1e-5 --corruption 0.1", "epsilon must be positive"),
    ("--epsilon 5 --delta 0 --corruption 0.1", "delta must be positive"),
    ("--epsilon wide --delta 1e-5", "--epsilon: must be a number"),
    ("--epsilon 0.001 --delta 1e-9 --corruption 0.1", "would do"),
    ("--method dp-mean --epsilon 1 --delta 1e-5 --corruption 0.1", "--corruption: dp-mean takes none"),
    ("--method geometric-median --epsilon 1", "--epsilon: geometric-median hides nothing and takes none"),
    ("--method prmie --epsilon 1", "did you mean 'prime'"),
    ("--method dp-mean --epsilon 1 --delta 1e-5 --heavy-tailed", "dp-mean has no such form; prime has"),
    ("--method coinpress --epsilon 1 --delta 1e-5", "coinpress needs --bound"),
    ("--method coinpress --epsilon 1 --delta 1e-5 --bound 9 stepz=3", "did you mean 'steps'"),
    ("--method coinpress --epsilon 1 --delta 1e-5 --bound 9 steps=x", "steps must be a whole number"),
    ("--method coinpress --epsilon 1 --delta 1e-5 --bound 9 bound=3", "bound is given twice"),
    ("--method dp-mean --epsilon 1 --delta 1e-5 --seed -1", "seed must be at least 0"),
    ("--method dp-mean --epsilon 1 --delta 1e-5 --out mean.txt", "the name must end in .npy or .csv"),
    ("--method dp-mean --epsilon 1 --delta 1e-5 --out no/such/place/mean.npy", "there is no directory no/such/place"),
    ("--method dp-mean --epsilon 1 --delta 1e-5 --bogus", "--bogus"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_is_one_line_exit_code_2_and_nothing_is_spent(
    words: str, message: str, sample: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def spent(*_: object) -> None:
        raise AssertionError("records were looked at")

    for kind in ESTIMATORS.values():
        monkeypatch.setattr(kind, "estimate", spent)
    assert main(["estimate", str(sample), "--quiet", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedpriv: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "nowhere.npy", "--method", "empirical-mean", "--quiet"]) == 2
    assert capsys.readouterr().err == "fedpriv: nowhere.npy: there is no such file\n"


def test_a_check_that_fails_gives_no_mean_exit_code_1_and_says_what_was_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "two.npy", np.where(np.arange(4000)[:, None] % 2, -20.0, 20.0))
    words = [
        str(tmp_path / "two.npy"),
        "--method",
        "trimmed-distance",
        *BUDGET,
        "--corruption",
        "0.05",
        "--bound",
        "30",
    ]
    status, found, _ = asked([*words, "--out", str(tmp_path / "mean.npy")], capsys)
    assert (status, found["mean"]) == (1, None)
    assert found["failure"].startswith("the width of what is kept")
    assert 0 < found["epsilon"]["upper"] <= 5
    assert not (tmp_path / "mean.npy").exists()
    assert main(["estimate", *words]) == 1
    assert "no mean" in capsys.readouterr().out


def test_heavy_tails_are_another_kind_of_prime(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(sample), "--method", "prime", *BUDGET, "--corruption", "0.05", "--heavy-tailed"]
    status, found, _ = asked(words, capsys)
    assert (status, found["method"]) == (0, "PrimeHeavyTailed")
    assert np.linalg.norm(np.array(found["mean"]) - 7) < 1


def test_the_table_says_what_was_charged_and_what_was_made(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", str(sample), "--method", "coinpress", *BUDGET, "--bound", "50", "steps=3"]) == 0
    out, err = capsys.readouterr()
    assert "ε at most 5, at least 4.9" in out
    assert out.count("Gaussian clip=") == 3
    assert "mean 1 of 3, mean 2 of 3, mean 3 of 3" in out
    assert "3 private accesses to the records planned" in err


def test_every_method_is_listed_and_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list"])
    listed = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["estimate", "--help"])
    helped = capsys.readouterr().out
    for name in ESTIMATORS:
        assert f"  {name} " in listed
        assert spelled_name(name) in helped


def test_help_and_a_refusal_load_neither_torch_nor_flower_nor_plots() -> None:
    script = """
import sys
from simulations.command_line import main
main(["estimate", "nowhere.npy", "--method", "empirical-mean", "--quiet"])
found = {"torch", "ray", "flwr", "matplotlib", "scipy.stats"} & set(sys.modules)
print(*sorted(found))
"""
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert outcome.stderr.strip() == "fedpriv: nowhere.npy: there is no such file"
    assert outcome.stdout.strip() == ""


def test_what_hides_nothing_says_so(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_ = [spelled_name(name) for name, cls in ESTIMATORS.items() if not getattr(cls, "private", True)]
    assert "robust-filter" in open_
    for method in open_:
        corruption = ["--corruption", "0.1"] if method == "robust-filter" else []
        status, found, _ = asked([str(sample), "--method", method, *corruption], capsys)
        assert status == 0
        assert not found["private"]
        assert found["epsilon"]["upper"] == "inf"


def test_records_are_never_written_over_and_a_mean_that_is_not_written_is_an_error(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.npy").symlink_to(sample)
    (tmp_path / "folder.npy").mkdir()
    words = [str(sample), "--method", "empirical-mean", "--out"]
    for out, why in (
        ("sample.npy", "the file of the records"),
        ("link.npy", "the records"),
        ("folder.npy", "directory"),
    ):
        status, _, err = asked([*words, str(tmp_path / out)], capsys)
        assert status == 2
        assert why in err
    assert np.load(sample).shape == (20_000, 3)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "replace_file", full)
    status, found, err = asked([*words, str(tmp_path / "mean.npy")], capsys)
    assert (status, found["out"], len(found["mean"])) == (1, None, 3)
    assert "No space left on device; the mean is below" in err

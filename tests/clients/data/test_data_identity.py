"""A run knows its data: they are named wherever it is shown, and nothing goes on with others."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.data import Arrays, Digits, Idx, Synthetic
from clients.data import identity as identities
from clients.data.identity import data_digest, data_identity, data_title, in_words, same_data
from clients.data.pool import Pool
from fedpriv import records
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from server import rounds
from server.directory import made_on
from simulations.command_line import main
from simulations.runs.direct import Here
from simulations.sweep._cell import run_cell

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
STOPS = """
from pathlib import Path

class Stops:
    def __init__(self, marker):
        self.marker = Path(marker)

    def on_updates(self, updates, view):
        if self.marker.is_file():
            left = int(self.marker.read_text()) - 1
            self.marker.write_text(str(left))
            if not left:
                self.marker.unlink()
                raise KeyboardInterrupt
        return -updates
"""
STUDY = """
clients = {{ count = 12, records = 4, byzantine = 1 }}
attack = {{ kind = "stops_by_marker:Stops", marker = "{marker}" }}
run = {{ rounds = 4 }}
privacy.mechanism = {{ kind = "Binomial", clip = 1.0, scale = 2.0, trials = 4 }}
data = {data}
"""
SWEPT = '\n[sweep]\n"run.seed" = [1, 2, 3]\n'


@pytest.fixture(autouse=True)
def _no_data_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDPRIV_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # where a study is read without the command


def drawn(seed: int, classes: int = 3) -> tuple[Any, ...]:
    """60 images to train on and 9 held out, of as many bytes whatever the seed."""
    rng = np.random.default_rng(seed)
    sizes = ((60, 4, 3), (60,), (9, 4, 3), (9,))
    return tuple(rng.integers(0, 256 if len(size) == 3 else classes, size).astype(np.uint8) for size in sizes)


def as_idx(folder: Path, seed: int, compressed: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    for name, values in zip(NAMES, drawn(seed), strict=True):
        sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
        content = bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(content) if compressed else content)
    return folder


def as_arrays(folder: Path, seed: int) -> Path:
    folder.mkdir(exist_ok=True)
    for name, values in zip(("x", "y", "x_test", "y_test"), drawn(seed), strict=True):
        np.save(folder / f"{name}.npy", values)
    return folder


def study(place: Path, data: str, more: str = "") -> str:
    """A study whose run is stopped in as many rounds as its marker says."""
    (place / "stops_by_marker.py").write_text(STOPS)
    text = 'name = "fashion"\n' + STUDY.format(marker=place / "marker", data=data) + more
    (place / "study.toml").write_text(text)
    return str(place / "study.toml")


def begun(place: Path, data: str) -> Path:
    """A run that was stopped in its third round."""
    file = study(place, data)
    (place / "marker").write_text("3")
    assert main(["run", file, "--driver", "direct", "--quiet", "--out", str(place / "run")]) == 130
    assert len(records.read_records(place / "run" / "records.jsonl").rounds) == 2
    return place / "run"


def resumed(run: Path) -> int:
    return main(["run", "--resume", str(run), "--driver", "direct", "--quiet"])


def refused(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """The one line that it was refused with."""
    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    return error


def content(run: Path) -> bytes:
    return (run / "records.jsonl").read_bytes()


IDX, MINE = '{ kind = "Idx", divide = 255.0 }', '{ kind = "Arrays", path = "mine", divide = 255.0 }'

# A digest


def test_a_digest_is_of_what_is_there_however_and_wherever_it_is_stored(tmp_path: Path) -> None:
    plain, packed = as_idx(tmp_path / "a", 1), as_idx(tmp_path / "b", 1, compressed=True)
    wide = as_arrays(tmp_path / "c", 1)
    for name in ("y.npy", "y_test.npy"):
        np.save(wide / name, np.load(wide / name).astype(np.int64))
    pools = [Idx(str(plain)).load(), Idx(str(packed), divide=2.0).load(), Arrays(str(wide)).load()]
    assert len({data_digest(pool) for pool in pools}) == 1


@pytest.mark.parametrize("part", range(4))
def test_one_value_anywhere_makes_another_digest(part: int) -> None:
    def pool(changed: bool) -> Pool:
        parts = drawn(1)
        parts[part].flat[-1] ^= changed
        x, y, x_test, y_test = parts
        return Pool(x, y.astype(np.int64), x_test.astype(np.float32), y_test.astype(np.int64), 4, 1.0, 0.0)

    assert data_digest(pool(False)) == data_digest(pool(False)) != data_digest(pool(True))


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", ">f4"])
def test_the_same_numbers_of_another_type_or_shape_are_other_data(dtype: str) -> None:
    x, y = np.arange(24).reshape(6, 4), np.arange(6) % 2
    made = [Pool(values, y, np.zeros((1, 4), np.float32), y[:1], 2, 1.0, 0.0)
            for values in (x.astype(dtype), x.astype("i4"), x.reshape(6, 2, 2).astype(dtype))]  # fmt: skip
    assert len({data_digest(pool) for pool in made}) == 3


def test_bytes_in_either_order_are_the_same_numbers() -> None:
    x, y = np.arange(24.0).reshape(6, 4), np.arange(6) % 2
    pools = [Pool(x.astype(order), y, np.zeros((1, 4), np.float32), y[:1], 2, 1.0, 0.0) for order in ("<f8", ">f8")]
    assert data_digest(pools[0]) == data_digest(pools[1])


def test_published_files_are_known_by_their_hashes_and_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hashlib import sha256

    files = [sha256((as_idx(tmp_path / "fashion-mnist", 1) / name).read_bytes()).hexdigest() for name in NAMES]
    found = data_identity("Idx", Idx(str(tmp_path / "fashion-mnist")).load())
    assert data_title(found["sha256"]) is None
    assert found["sha256"] == sha256("".join(files).encode()).hexdigest()
    monkeypatch.setitem(identities._TITLES, found["sha256"], "Mine")
    assert in_words(found).startswith("Mine: 60 records of 4 × 3 and 9 held out, 3 classes, by Idx, sha256 ")
    assert {identities.data_title(each) for each in identities._TITLES} == {"Mine", "Fashion-MNIST", "MNIST"}


@pytest.mark.parametrize("later", [False, True], ids=["its time set back", "its time as it is"])
def test_files_that_were_rewritten_are_read_and_hashed_anew_in_the_same_process(tmp_path: Path, later: bool) -> None:
    folder = as_arrays(tmp_path / "mine", 1)
    before = {path: os.stat(path) for path in folder.iterdir()}
    first, again = Arrays(str(folder)).load(), Arrays(str(folder)).load()
    assert first is again
    was = data_digest(first)
    as_arrays(folder, 2)
    for path, own in before.items():
        assert path.stat().st_size == own.st_size
        if not later:
            os.utime(path, ns=(own.st_atime_ns, own.st_mtime_ns))
    assert data_digest(Arrays(str(folder)).load()) != was


def test_a_digest_is_worked_out_once_for_files_that_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hashed = as_idx(tmp_path / "idx", 1), list[int]()
    real = identities.sha256

    def counted(content: bytes) -> Any:
        hashed.append(1)
        return real(content)

    monkeypatch.setattr(identities, "sha256", counted)
    assert len({data_digest(Idx(str(folder)).load()) for _ in range(5)}) == 1
    assert len(hashed) == 5  # four files, and what they come to together


def test_as_many_classes_as_somebody_says_are_other_data_for_a_model() -> None:
    pool = Synthetic().load()
    own, more = (data_identity("Synthetic", each) for each in (pool, replace(pool, classes=9)))
    assert own["sha256"] == more["sha256"]
    assert same_data(own, own)
    assert not same_data(own, more)
    assert in_words(more).split(", ")[1] == "9 classes (none of 4–8)"


def test_a_process_trains_each_run_on_the_data_that_are_there_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = study(tmp_path, IDX)
    weights = {}
    for name, seed, about in (("one", 1, ""), ("two", 2, ""), ("three", 2, "the same, in other words")):
        monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / name, seed)))
        rounds.run_rounds(study_file.read_study(file, [f"about={about}"]), tmp_path / f"run-{name}", Here(), quiet=True)
        with np.load(tmp_path / f"run-{name}" / "checkpoint.npz") as saved:
            weights[name] = saved["weights"]
    assert (weights["two"] == weights["three"]).all()
    assert (weights["one"] != weights["two"]).any()


# Resuming


def test_a_resumed_run_is_refused_other_idx_files_and_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = as_idx(tmp_path / "one", 1), as_idx(tmp_path / "other", 2)
    monkeypatch.setenv("FEDPRIV_DATA", str(one))
    run = begun(tmp_path, IDX)
    was, ledger = content(run), (run / "ledger.jsonl").read_bytes()
    monkeypatch.setenv("FEDPRIV_DATA", str(other))
    capsys.readouterr()
    error = refused(capsys, resumed(run))
    for folder in (one, other):
        assert f"from {folder}, sha256 {data_digest(Idx(str(folder)).load())[:16]}" in error
    assert (content(run), (run / "ledger.jsonl").read_bytes()) == (was, ledger)
    monkeypatch.setenv("FEDPRIV_DATA", str(one))
    assert resumed(run) == 0


def test_a_resumed_run_is_refused_arrays_that_were_rewritten_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_arrays(tmp_path / "mine", 1)
    run = begun(tmp_path, MINE)
    capsys.readouterr()
    as_arrays(tmp_path / "mine", 2)
    error = refused(capsys, resumed(run))
    assert error.count(f"from {tmp_path / 'mine'}, sha256 ") == 2
    assert "was made on 60 records of 4 × 3 and 9 held out, 3 classes" in error


def test_the_same_data_in_another_place_and_format_go_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / "one", 1)))
    run = begun(tmp_path, IDX)
    shutil.rmtree(tmp_path / "one")
    monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / "two", 1, compressed=True)))
    assert resumed(run) == 0
    assert main(["run", str(tmp_path / "study.toml"), "--driver", "direct", "--quiet", "--out", "undisturbed"]) == 0
    assert content(run) == content(tmp_path / "undisturbed")


def test_a_run_that_was_moved_with_its_data_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home := tmp_path / "home").mkdir()
    monkeypatch.chdir(home)
    as_arrays(home / "mine", 1)
    begun(home, MINE)
    home.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert resumed(tmp_path / "moved" / "run") == 0


def test_a_run_whose_data_are_gone_says_which_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_arrays(tmp_path / "mine", 1)
    run = begun(tmp_path, MINE)
    capsys.readouterr()
    shutil.rmtree(tmp_path / "mine")
    error = refused(capsys, resumed(run))
    assert "was made on 60 records of 4 × 3" in error
    assert f"{tmp_path / 'mine' / 'x.npy'} is missing" in error
    error = refused(capsys, main(["certify", str(run), "--images", "3", "--quiet"]))
    assert "was made on 60 records of 4 × 3" in error


def unnamed(run: Path) -> None:
    """As an earlier version left it."""
    header, *rounds_ = content(run).splitlines(keepends=True)
    line = json.loads(header)
    del line["data"]
    (run / "records.jsonl").write_bytes(records.record_bytes(line) + b"".join(rounds_))


def test_a_run_that_does_not_say_its_data_is_reported_and_certified_but_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_arrays(tmp_path / "mine", 1)
    run = begun(tmp_path, MINE)
    unnamed(run)
    was = content(run)
    capsys.readouterr()
    assert "does not say on which data it was made" in refused(capsys, resumed(run))
    assert content(run) == was
    assert main(["report", str(run)]) == 0
    assert "data" in (shown := capsys.readouterr().out)
    assert "an earlier version made this run, which did not say on which data" in shown
    few = ["--images", "2", "--draws", "20", "--quiet", "--no-figure", "--workers", "1"]
    assert main(["certify", str(run), *few]) == 0


def test_a_data_set_of_ones_own_is_known_by_what_it_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own_blobs.py").write_text(
        "import numpy as np\nfrom pathlib import Path\nfrom clients.data.pool import Pool\n\n"
        "class Blobs:\n    def __init__(self, file):\n        self.file = file\n\n    def load(self):\n"
        "        rng = np.random.default_rng(int(Path(self.file).read_text()))\n"
        "        x, y = rng.standard_normal((60, 5)).astype(np.float32), np.arange(60) % 3\n"
        "        return Pool(x, y, x[:9], y[:9], 3, 1.0, 0.0)\n"
    )
    (tmp_path / "seed").write_text("1")
    run = begun(tmp_path, f'{{ kind = "own_blobs:Blobs", file = "{tmp_path / "seed"}" }}')
    capsys.readouterr()
    (tmp_path / "seed").write_text("2")
    assert "was made on 60 records of 5 features" in refused(capsys, resumed(run))
    (tmp_path / "seed").write_text("1")
    assert resumed(run) == 0


# Sweeps


def swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[Path]:
    file = study(tmp_path, IDX, SWEPT)
    assert main(["sweep", file, "--out", "out", "--workers", "1", "--quiet", "--json"]) == 0
    capsys.readouterr()
    index = json.loads((tmp_path / "out" / "sweep.json").read_text())
    return [tmp_path / "out" / "cells" / cell["id"] for cell in index["cells"]]


def again() -> int:
    return main(["sweep", "study.toml", "--out", "out", "--workers", "1", "--quiet", "--json"])


@pytest.mark.slow
@pytest.mark.flower
def test_a_sweep_adds_no_cell_of_other_data_to_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = as_idx(tmp_path / "one", 1), as_idx(tmp_path / "other", 2)
    monkeypatch.setenv("FEDPRIV_DATA", str(one))
    cells = swept(tmp_path, capsys)
    shutil.rmtree(cells[1])
    monkeypatch.setenv("FEDPRIV_DATA", str(other))
    error = refused(capsys, again())
    assert f"from {one}, sha256 " in error
    assert f"from {other}, sha256 " in error
    assert not cells[1].exists()
    monkeypatch.setenv("FEDPRIV_DATA", str(one))
    assert again() == 0
    assert json.loads(capsys.readouterr().out)["already"] == 2
    monkeypatch.setenv("FEDPRIV_DATA", str(other))
    assert "was made on" in refused(capsys, again())  # nor are they taken as done
    monkeypatch.setenv("FEDPRIV_DATA", str(one))
    for cell in cells:
        unnamed(cell)
    assert "does not say on which data it was made" in refused(capsys, again())
    assert main(["report", "out", "--no-html"]) == 0


def test_a_worker_that_has_other_data_makes_no_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = study_file.read_study(study(tmp_path, IDX))
    monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / "one", 1)))
    made = made_on.data_here(own)
    monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / "other", 2)))
    fault = run_cell(study_file.study_text(own), tmp_path / "cell", made)
    assert fault is not None
    assert str(tmp_path / "one") in fault
    assert str(tmp_path / "other") in fault
    assert not (tmp_path / "cell" / "records.jsonl").exists()


@pytest.mark.flower
def test_a_sweep_whose_seeds_are_of_different_data_says_so_and_one_of_the_same_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = as_idx(tmp_path / "one", 1), as_idx(tmp_path / "other", 2)
    monkeypatch.setenv("FEDPRIV_DATA", str(one))
    cells = swept(tmp_path, capsys)
    assert main(["report", "out", "--json"]) == 0
    said = " ".join(json.loads(capsys.readouterr().out)["said"])
    assert f"3 cells are of {in_words(data_identity('Idx', Idx().load()), str(one))}." in said
    assert "DIFFERENT DATA" not in said
    cell = study_file.read_study(str(cells[1] / "study.toml"))
    shutil.rmtree(cells[1])
    monkeypatch.setenv("FEDPRIV_DATA", str(other))
    rounds.run_rounds(cell, cells[1], Here(), quiet=True)  # as no sweep would
    assert main(["report", "out", "--json"]) == 0
    said = " ".join(json.loads(capsys.readouterr().out)["said"])
    assert "Seeds of one study are of DIFFERENT DATA" in said
    assert str(other) in said


# Certificates


def test_a_certificate_is_of_the_images_held_out_from_the_run_or_of_those_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / "one", 1)))
    file = study(tmp_path, IDX)
    assert main(["run", file, "--driver", "direct", "--quiet", "--out", "run"]) == 0
    few = ["--images", "2", "--draws", "20", "--quiet", "--no-figure", "--workers", "1"]
    assert main(["certify", "run", *few]) == 0
    other = as_idx(tmp_path / "other", 2)
    monkeypatch.setenv("FEDPRIV_DATA", str(other))
    capsys.readouterr()
    error = refused(capsys, main(["certify", "run", *few]))
    assert str(tmp_path / "one") in error
    assert str(other) in error
    assert main(["certify", "run", *few, "--data", str(other)]) == 0


# Where it is shown


def test_records_are_the_same_bytes_wherever_the_data_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = study(tmp_path, IDX)
    for name in ("here", "there"):
        monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / name, 1, compressed=name == "there")))
        assert main(["run", file, "--driver", "direct", "--quiet", "--out", f"run-{name}"]) == 0
    assert content(tmp_path / "run-here") == content(tmp_path / "run-there")
    assert str(tmp_path).encode() not in content(tmp_path / "run-here").split(b'"data"')[1].split(b"\n")[0]
    assert made_on.data_told(tmp_path / "run-there") == (
        data_identity("Idx", Idx().load()),
        str(tmp_path / "there"),
    )


def test_dry_run_json_table_and_page_name_what_was_read_and_not_what_the_file_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDPRIV_DATA", str(as_idx(tmp_path / "mnist", 1)))
    few = ["--set", "clients={count=12, records=4, byzantine=1}", "--set", "run.rounds=2"]
    own = data_identity("Idx", Idx().load())
    where = {"path": str(tmp_path / "mnist")}
    assert main(["run", "fashion", *few, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == own | where
    assert main(["run", "fashion", *few, "--dry-run"]) == 0
    assert in_words(own, where["path"]) in capsys.readouterr().out
    assert main(["run", "fashion", *few, "--driver", "direct", "--quiet", "--out", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == own | where
    assert main(["report", "run"]) == 0
    assert in_words(own, where["path"]) in capsys.readouterr().out
    assert main(["report", "run", "--json", "--no-html"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == own | where | {"name": None}
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert own["sha256"][:16] in page
    assert "Fashion-MNIST" not in page
    monkeypatch.setitem(identities._TITLES, own["sha256"], "Fashion-MNIST")
    assert main(["report", "run"]) == 0
    assert "Fashion-MNIST: 60 records" in (tmp_path / "run" / "report" / "index.html").read_text()


def test_the_dry_run_of_a_sweep_names_every_data_set_of_its_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, name in enumerate(("one", "other")):
        as_arrays(tmp_path / name, seed)
    file = study(tmp_path, MINE, '\n[sweep]\n"data.path" = ["one", "other"]\n')
    assert main(["sweep", file, "--dry-run", "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["data"]
    assert [each["path"] for each in found] == [str(tmp_path / name) for name in ("one", "other")]
    assert len({each["sha256"] for each in found}) == 2


def test_a_header_with_damaged_data_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('data = { kind = "Digits" }\nclients = { count = 20 }\nrun = { rounds = 1 }\n')
    rounds.run_rounds(study_file.read_study(str(file)), tmp_path / "run", Here(), quiet=True)
    whole = content(tmp_path / "run")
    assert records.read_records(tmp_path / "run" / "records.jsonl").header["data"] == data_identity(
        "Digits", Digits().load()
    )
    (tmp_path / "run" / "records.jsonl").write_bytes(whole.replace(b'"shape":[8,8]', b'"shape":"8"'))
    with pytest.raises(FedprivError, match=r"records.jsonl:1: data cannot be \{"):
        records.read_records(tmp_path / "run" / "records.jsonl")

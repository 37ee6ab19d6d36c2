"""What a record's features are depends on it alone; they are made once, checked, and part of what a run was made on."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_features import Small
from pytest import approx

import fedpriv as fp
from clients.data import Digits
from clients.data.featured import data_set_of, told_features
from clients.data.features import FEATURES, _rows, features_of, making
from clients.data.features._kept import write_rows
from clients.data.identity import data_digest, data_identity, in_words, same_data
from clients.data.pool import Pool
from clients.node.guard import Node
from clients.node.policy import Refused, read_policy
from fedpriv.errors import FedprivError
from fedpriv.registry import Kind
from fedpriv.studies import file as study_file
from simulations.command_line import main

TRIED: dict[str, dict[str, Any]] = {  # for images of 8 × 8
    "Histograms": {"cells": [2, 4], "blocks": 2},
    "RandomConvolutions": {"filters": 5, "side": 3, "regions": 2},
    "Scattering": {"scales": 2, "angles": 4},
}
HALVES = {"kind": "own_features:Halves"}
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDPRIV_CACHE", str(tmp_path / "cache"))
    making.pool_made_once.cache_clear()
    return tmp_path / "cache" / "features"


def small_pool(records: int = 600, shape: tuple[int, ...] = (8, 8), held_out: int = 40) -> Pool:
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 256, (records, *shape)).astype(np.uint8)
    held = rng.random((held_out, *shape), dtype=np.float32)
    y, y_test = np.arange(records) % 3, np.arange(held_out) % 3
    return Pool(x=x, y=y, x_test=held, y_test=y_test, classes=3, divide=255.0, subtract=0.0)


def table(kind: str, **settings: Any) -> dict[str, Any]:
    return {"kind": kind, **TRIED.get(kind, {}), **settings}


def featured(own: dict[str, Any], pool: Pool | None = None) -> Pool:
    return making.featured_pool(pool or small_pool(), features_of(own))


# --- what depends on a record alone -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(TRIED))
@pytest.mark.parametrize("shape", [(8, 8), (3, 9, 8), (10, 8, 3)])
def test_what_a_record_gives_is_the_same_bits_alone_among_others_and_in_any_order(
    kind: str, shape: tuple[int, ...]
) -> None:
    made, records = FEATURES.made(kind, TRIED[kind]), RNG.random((37, *shape), dtype=np.float32)
    whole, order = made(records), RNG.permutation(37)
    assert whole.dtype == np.float32
    assert (made(records[order]) == whole[order]).all()
    for start, end in ((0, 1), (5, 6), (3, 20), (30, 37)):
        assert (made(records[start:end]) == whole[start:end]).all()
    records[5] = 0
    changed = np.flatnonzero((made(records) != whole).any(axis=1))
    assert changed.tolist() == [5]


@pytest.mark.parametrize("kind", sorted(TRIED))
def test_a_pool_of_features_has_a_row_for_each_record_whatever_the_cores(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = small_pool()
    found = featured(table(kind, normalise="none"), pool)
    by_hand = FEATURES.made(kind, TRIED[kind])(pool.batch(np.arange(600)[None])[0][0])
    assert (np.asarray(found.x) == by_hand).all()
    assert len(found.x_test) == 40
    assert (found.divide, found.subtract, found.classes) == (1.0, 0.0, 3)
    monkeypatch.setattr(_rows, "usable_cores", lambda: 1)
    monkeypatch.setattr(_rows, "AT_ONCE", 7)
    again = _rows.rows_of_pool(pool, features_of(table(kind, normalise="none")))
    assert (again[:600] == found.x).all()
    assert (again[600:] == found.x_test).all()


@pytest.mark.parametrize("kind", sorted(TRIED))
def test_flat_records_are_refused_by_kinds_that_are_of_images(kind: str) -> None:
    with pytest.raises(FedprivError, match=rf"^features: {kind} are of images, .* have the shape \(64,\): leave"):
        featured(table(kind), small_pool(shape=(64,)))


def test_normalised_records_have_norm_one_and_groups_mean_zero() -> None:
    record = featured(table("Histograms"))
    assert np.linalg.norm(record.x, axis=1) == approx(np.ones(600), abs=1e-6)
    group = featured(table("Histograms", normalise="group", groups=4))
    parts = np.asarray(group.x).reshape(600, 4, -1)
    assert parts.mean(axis=2) == approx(np.zeros((600, 4)), abs=1e-6)
    assert np.square(parts).sum(axis=2) == approx(np.full((600, 4), 0.25), abs=1e-6)
    long = featured(table("Histograms", norm=3.0))
    assert np.linalg.norm(long.x, axis=1) == approx(np.full(600, 3.0), abs=1e-5)
    dark = replace(small_pool(), x=np.zeros((600, 8, 8), np.uint8))
    assert not featured(table("Histograms"), dark).x.any()


@pytest.mark.parametrize("normalise", ["record", "none"])
def test_a_centre_is_of_drawn_shapes_and_the_same_whatever_the_records(normalise: str) -> None:
    pool, own = small_pool(), table("Histograms", normalise=normalise)
    raw, centred = (np.asarray(featured(own | {"centre": asked}, pool).x) for asked in (False, True))
    moved = raw - _rows.public_centre(features_of(own | {"centre": True}), (8, 8))
    wanted = moved / np.linalg.norm(moved, axis=1, keepdims=True) if normalise == "record" else moved
    assert centred == approx(wanted, abs=1e-6)
    few = replace(pool, x=pool.x[:5], y=pool.y[:5])
    assert np.array_equal(featured(own | {"centre": True}, few).x, centred[:5])


def test_roots_of_histograms_are_their_square_roots() -> None:
    plain, root = (featured(table("Histograms", normalise="none", root=asked)).x for asked in (False, True))
    assert np.square(root) == approx(np.asarray(plain), abs=1e-6)


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"kind": "Histogram"}, "features: unknown feature map 'Histogram' (did you mean 'Histograms'?)"),
        ({"cells": [4]}, "features must be a table such as { kind ="),
        (table("Histograms", cells=[4, 4]), "features: Histograms: cells must be a list of at least one side"),
        (table("Histograms", cells=[]), "features: Histograms: cells must be a list"),
        (table("Histograms", orientations=1), "features: Histograms: orientations must be at least 2, got 1"),
        (table("Histograms", floor=float("nan")), "features: Histograms: floor must be"),
        (table("Histograms", cells=[9]), "features: cells: 9 pixels a side, and images are 8 × 8"),
        (table("Histograms", groups=3), 'features: groups = 3, and normalise = "record"'),
        (table("Histograms", norm=2.0, normalise="none"), 'features: norm = 2.0, and normalise = "none"'),
        (table("Histograms", public=True), "features: public = true is of module:Class"),
        (table("Histograms", normalise="group", groups=7), "features: groups = 7 do not divide the"),
        (table("RandomConvolutions", side=8), "features: side = 8 and regions = 2: images of 8 × 8 have 1 × 1"),
        (table("Scattering", order=3), "features: Scattering: order must be at most 2"),
        (table("Cached", path="here", centre=True), "features: centre = true makes features of drawn shapes"),
        (table("Cached", path=""), "features: Cached: path must name a directory"),
        (table("Pretrained", network={"kind": "Small"}, weights="a.pt"), "features: Pretrained: network must be a"),
        (
            table("Pretrained", network={"kind": "a:B"}, weights="a.h5"),
            "features: Pretrained: weights must name a file",
        ),
        ({"kind": "own_features:Missing"}, "features: feature map 'own_features:Missing' cannot be imported"),
        ({"kind": "own_features:Small"}, "features: own_features:Small: TypeError: "),
    ],
)
def test_bad_settings_are_refused_in_one_line_that_names_them(own: dict[str, Any], told: str) -> None:
    with pytest.raises(FedprivError) as caught:
        featured(own)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


# --- one's own ----------------------------------------------------------------------------------------------------


def test_one_of_ones_own_is_checked_and_named_by_the_digest_of_its_code() -> None:
    found = featured(HALVES)
    assert found.shape == (2,)
    assert found.features is not None
    assert len(found.features["code"]) == 16


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Centred", "gives a record other features beside other records: it must look at each alone, or say public"),
        ("Counting", "gives a record other features beside other records"),
        ("Gaps", "gives record 0 what is not finite"),
        ("Failing", "KeyError: 'pixel'"),
        ("Short", "must give a row for each of 64 records, got the shape (63, 64)"),
        ("Uneven", "gives a record other features beside other records"),
    ],
)
def test_one_of_ones_own_that_looks_at_others_or_gives_what_is_no_row_is_refused(name: str, told: str) -> None:
    with pytest.raises(FedprivError) as caught:
        featured({"kind": f"own_features:{name}"})
    assert told in str(caught.value)


def test_one_that_looks_at_all_records_may_where_they_are_declared_public_and_then_it_is_said() -> None:
    pool = small_pool()
    found = featured({"kind": "own_features:Centred", "public": True, "normalise": "none"}, pool)
    together = np.concatenate([found.x, found.x_test])
    assert together.mean(axis=0) == approx(np.zeros(64), abs=1e-5)
    assert "as 64 features by own_features:Centred, which may look at all records" in in_words(
        data_identity("Digits", found)
    )


def test_one_that_keeps_what_it_saw_is_refused_after_all_records_whatever_the_first_ones_gave() -> None:
    with pytest.raises(FedprivError, match="own_features:Running gives a record other features beside other records"):
        featured({"kind": "own_features:Running", "normalise": "none"})


@pytest.mark.parametrize("kind", sorted(TRIED))
def test_a_record_of_huge_numbers_has_finite_features_and_no_other_record_is_refused_for_it(kind: str) -> None:
    pool = small_pool(shape=(8, 8))
    huge = pool.x.astype(np.float32)
    huge[3, 2, 2], huge[4] = 1e25, np.float32(3e38)
    made = np.asarray(featured(table(kind), replace(pool, x=huge)).x)
    plain = np.asarray(featured(table(kind), replace(pool, x=pool.x.astype(np.float32))).x)
    assert np.isfinite(made).all()
    assert (np.delete(made, [3, 4], axis=0) == np.delete(plain, [3, 4], axis=0)).all()


def test_settings_under_which_even_a_record_of_zeros_has_no_features_are_refused() -> None:
    with pytest.raises(FedprivError, match="RandomConvolutions gives even a record of zeros what is not finite"):
        featured(table("RandomConvolutions", contrast=1e-30))


# --- files --------------------------------------------------------------------------------------------------------


def test_features_are_kept_on_disk_and_found_there_until_the_file_is_damaged(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = np.array(featured(table("Histograms")).x)
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    for damaged in (
        lambda content: content[:-100],
        lambda content: content[:999] + b"x" + content[1000:],
        lambda _: b"",
    ):
        making.pool_made_once.cache_clear()
        file.write_bytes(damaged(file.read_bytes()))
        assert (np.asarray(featured(table("Histograms")).x) == first).all()
    making.pool_made_once.cache_clear()
    monkeypatch.setattr(making, "rows_of_pool", None)  # nothing is made: all is found
    assert (np.asarray(featured(table("Histograms")).x) == first).all()


def test_where_nothing_can_be_kept_features_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FEDPRIV_CACHE", str(tmp_path / "file"))
    assert featured(table("Histograms")).x.shape == (600, 1080)


def test_other_records_other_settings_and_another_scale_are_kept_under_other_names(cache: Path) -> None:
    featured(table("Histograms"))
    featured(table("Histograms", floor=0.1))
    featured(table("Histograms"), replace(small_pool(), divide=128.0))
    featured(table("Histograms"), small_pool(records=599))
    assert len(list(cache.iterdir())) == 4


def test_settings_and_files_of_ones_own_make_other_features_and_a_file_that_changed_is_read_anew(
    tmp_path: Path,
) -> None:
    for name, value in (("one", "1"), ("two", "2")):
        (tmp_path / name).write_text(value)
    own = {"kind": "own_features:Weighted", "normalise": "none"}
    one = featured(own | {"path": str(tmp_path / "one")})
    assert (np.asarray(featured(own | {"path": str(tmp_path / "two")}).x) == 2 * np.asarray(one.x)).all()
    assert (np.asarray(featured(own | {"path": str(tmp_path / "one"), "times": 3.0}).x) == 3 * np.asarray(one.x)).all()
    (tmp_path / "one").write_text("2")
    changed = featured(own | {"path": str(tmp_path / "one")})
    assert (np.asarray(changed.x) == 2 * np.asarray(one.x)).all()
    assert changed.features != one.features


@pytest.mark.parametrize(
    ("name", "told"), [("Counted", "TypeError"), ("Spelled", "must be a list of paths, got '/a/b")]
)
def test_files_of_ones_own_that_are_no_list_are_refused_by_name(name: str, told: str) -> None:
    with pytest.raises(FedprivError, match=f"own_features:{name}.*{told}"):
        featured({"kind": f"own_features:{name}"})


@pytest.mark.parametrize("norm", [1e40, 1e-300, 0.0, float("nan")])
def test_a_norm_that_records_could_not_be_brought_to_in_32_bits_is_refused(norm: float) -> None:
    with pytest.raises(FedprivError, match="norm must be"):
        features_of(table("Histograms", norm=norm))


def test_a_setting_that_is_called_like_a_place_makes_other_features_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    own = {"kind": "own_features:Weighted", "path": str(tmp_path / "file"), "normalise": "none"}
    assert featured(own).features == featured(own | {"path": str(tmp_path / "file")}).features
    other = {**own, "path": str(tmp_path / "other")}
    (tmp_path / "other").write_text("1")
    assert featured(own).features != featured(other).features
    tables = [Kind("Digits", {"features": {**own, "weights": value}}) for value in (1.0, 50.0)]
    assert told_features(tables[0]) != told_features(tables[1])


def test_files_that_change_while_features_are_made_are_refused_and_nothing_is_kept(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "file").write_text("7.0")
    with pytest.raises(FedprivError, match="the files that they come from changed while they were made"):
        featured({"kind": "own_features:Meddled", "path": str(tmp_path / "file")})
    assert not cache.exists()


@pytest.mark.parametrize("centre", [False, True])
def test_weights_that_change_within_a_process_make_other_features(tmp_path: Path, centre: bool) -> None:
    own = features_of({
        "kind": "Pretrained", "network": {"kind": "own_features:Small"}, "layer": "body", "centre": centre,
        "weights": str(tmp_path / "net.npz"), "normalise": "none",
    })  # fmt: skip
    state = {name: value.numpy() for name, value in Small().state_dict().items()}
    np.savez(tmp_path / "net.npz", **state)
    one = np.array(making.featured_pool(small_pool(), own).x)
    np.savez(tmp_path / "net.npz", **{name: 2 * value for name, value in state.items()})
    two = np.array(making.featured_pool(small_pool(), own).x)
    assert two == approx(2 * one, abs=1e-5)


def test_kept_features_of_another_number_of_records_are_made_anew_and_what_killed_writers_left_goes(
    cache: Path,
) -> None:
    first = np.array(featured(table("Histograms")).x)
    (file,) = cache.iterdir()
    write_rows(file, np.zeros((639, 1080), np.float32))
    old, new = (file.with_name(f".{file.name}.{end}") for end in ("old", "new"))
    for left in (old, new):
        left.write_bytes(b"features")
    os.utime(old, (0, 0))
    making.pool_made_once.cache_clear()
    assert (np.asarray(featured(table("Histograms")).x) == first).all()
    assert sorted(cache.iterdir()) == sorted([file, new])


def test_activations_made_elsewhere_come_from_files_and_files_of_other_records_are_refused(tmp_path: Path) -> None:
    own = {"kind": "Cached", "path": str(tmp_path), "normalise": "none"}
    x, x_test = RNG.normal(size=(600, 2, 5)), RNG.normal(size=(40, 2, 5))
    np.save(tmp_path / "x.npy", np.concatenate([x, x_test]))
    together = featured(own)
    assert np.asarray(together.x) == approx(x.astype(np.float32))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "x_test.npy", x_test)
    apart = featured(own)
    assert (np.asarray(apart.x) == together.x).all()
    assert apart.features != together.features  # by the files' digests
    for name, values, told in (
        ("x_test", x_test[:39], "x_test.npy: 39 rows, where the data have 40 records"),
        ("x_test", x_test[:, :, :4], "x_test.npy: features of shape (2, 4), those of x.npy have (2, 5)"),
        ("x_test", np.where(x_test > 3, np.nan, x_test) * np.nan, "Cached gives record 600 what is not finite"),
        ("x", x[:, 0, 0], "x.npy: must hold a row of real numbers for each record, got float64 (600,)"),
    ):
        np.save(tmp_path / f"{name}.npy", values)
        with pytest.raises(FedprivError, match=r"^features: ") as caught:
            featured(own)
        assert told in str(caught.value)
    (tmp_path / "x.npy").unlink()
    with pytest.raises(FedprivError, match=r"^features: .*x.npy"):
        featured(own)


def trained_small(folder: Path) -> Small:
    """A network trained on half of the digits, which are public, with its state dict in all three formats."""
    pool = Digits().load()
    x = torch.from_numpy(pool.batch(np.arange(700)[None])[0][0])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = Small()
        optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(60):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x), torch.from_numpy(pool.y[:700])).backward()
            optimiser.step()
    torch.save(net.state_dict(), folder / "net.pt")
    np.savez(folder / "net.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
    from safetensors.torch import save_file

    save_file(net.state_dict(), folder / "net.safetensors")
    return net


def test_the_last_layer_alone_is_trained_on_what_a_pretrained_network_makes_of_records(tmp_path: Path) -> None:
    net, pool = trained_small(tmp_path), Digits().load()
    own = {"kind": "Pretrained", "network": {"kind": "own_features:Small"}, "layer": "body", "normalise": "none"}
    found = [featured(own | {"weights": str(tmp_path / f"net.{end}")}, pool) for end in ("pt", "npz", "safetensors")]
    assert found[0].shape == (12,)
    for each in found[1:]:
        assert (np.asarray(each.x) == found[0].x).all()
    records = torch.from_numpy(pool.batch(np.arange(1437)[None])[0][0])
    with torch.no_grad():
        assert np.asarray(found[0].x) == approx(net.body(records).numpy(), abs=1e-5)
        scores = net.last(torch.from_numpy(np.array(found[0].x_test)))
    assert (scores.argmax(1).numpy() == pool.y_test).mean() > 0.85


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"network": {"kind": "own_features:Small", "units": 9}},
         "net.pt: body.1.weight has the shape (12, 64), and in Small it has the shape (9, 64)"),
        ({"layer": "bodi"}, "layer 'bodi' (did you mean 'body'?); the network's layers: body, body.0, body.1"),
        ({"network": {"kind": "own_features:Halves"}}, "network: own_features:Halves is no torch.nn.Module"),
        ({"weights": "no.pt"}, "no.pt: cannot be read (No such file or directory)"),
        ({"network": {"kind": "torch.nn:Flatten"}}, "shape (12, 64), and in Flatten it is missing"),
    ],
)  # fmt: skip
def test_weights_of_another_network_are_refused_by_layer_and_shape(
    change: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(Small().state_dict(), tmp_path / "net.pt")
    monkeypatch.chdir(tmp_path)
    own = {"kind": "Pretrained", "network": {"kind": "own_features:Small"}, "weights": "net.pt", "layer": "body"}
    with pytest.raises(FedprivError) as caught:
        featured(own | change, Digits().load())
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("network", "layer", "told"),
    [
        ("Early", "body", "layer 'body' does not run for every record"),
        (
            "Remembering",
            None,
            "Pretrained gives a record other features beside other records: it must look at each alone$",
        ),
    ],
)
def test_a_network_whose_activations_could_be_another_records_is_refused(
    network: str, layer: str | None, told: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "net.npz", **{name: value.numpy() for name, value in Small().state_dict().items()})
    own = {"network": {"kind": f"own_features:{network}"}, "weights": str(tmp_path / "net.npz")}
    with pytest.raises(FedprivError, match=told):
        featured(table("Pretrained", **own, **({"layer": layer} if layer else {})), Digits().load())


def test_what_a_layer_gave_is_kept_as_it_was_whatever_writes_over_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "net.npz", **{name: value.numpy() for name, value in Small().state_dict().items()})
    own = {"weights": str(tmp_path / "net.npz"), "layer": "body"}
    plain, reused = (
        np.asarray(featured(table("Pretrained", network={"kind": f"own_features:{name}"}, **own)).x)
        for name in ("Small", "Reused")
    )
    assert plain.any()
    assert (plain == reused).all()


def test_a_state_dict_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> Any:
            return os.system, ("touch ran",)

    torch.save({"a": Runs()}, tmp_path / "net.pt")
    own = {"kind": "Pretrained", "network": {"kind": "own_features:Small"}, "weights": str(tmp_path / "net.pt")}
    with pytest.raises(FedprivError, match="no state dict can be read from it"):
        featured(own)
    assert not Path("ran").exists()


# --- runs ---------------------------------------------------------------------------------------------------------

STUDY = """
name = "features"
data = { kind = "Digits", features = { kind = "Histograms", cells = [4] } }
clients = { count = 60, records = 4 }
privacy.epsilon = 8.0
privacy.trust = "secure-aggregation"
privacy.mechanism = { kind = "Binomial", clip = 1.0, peak = 0.2, trials = 4 }
run = { rounds = 2 }
"""


def test_a_study_that_says_no_features_is_who_it_was_and_one_that_does_is_another() -> None:
    plain = study_file.read_study("digits")
    assert plain.id.hex() == study_file.parsed_study(plain.table(), name="digits").id.hex()
    with_features = study_file.read_study("digits", {"data.features": {"kind": "Histograms"}})
    assert with_features.id != plain.id
    assert study_file.parsed_study(study_file.study_text(with_features), name="digits").id == with_features.id


def test_a_runs_identity_has_the_digest_of_the_records_and_what_is_made_of_them() -> None:
    pool = data_set_of(Kind("Digits", {"features": table("Histograms")})).load()
    own = data_identity("Digits", pool)
    assert own["sha256"] == data_digest(Digits().load())
    assert own["features"] == {**table("Histograms"), "of": [8, 8], "code": "fedpriv"}
    assert "1,437 records of 8 × 8 as 1,080 features by Histograms" in in_words(own)
    assert same_data(own, json.loads(json.dumps(own)))
    assert not same_data(own, data_identity("Digits", Digits().load()))


def test_a_run_on_features_learns_gives_the_same_bytes_from_a_cold_cache_and_cannot_be_certified(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = fp.run(STUDY, tmp_path / "one", quiet=True)
    for file in cache.iterdir():
        file.unlink()
    making.pool_made_once.cache_clear()
    fp.run(STUDY, tmp_path / "two", quiet=True)
    assert (tmp_path / "one" / "records.jsonl").read_bytes() == (tmp_path / "two" / "records.jsonl").read_bytes()
    assert first.ended == "finished"
    assert main(["certify", str(tmp_path / "one")]) != 0
    assert "trained on features (Histograms): what is certified" in capsys.readouterr().err


def test_arrays_in_python_go_through_the_features_that_a_study_names(tmp_path: Path) -> None:
    x, y = RNG.random((300, 8, 8), dtype=np.float32), np.arange(300) % 3
    changes = {"data.features": {"kind": "Histograms", "cells": [4]}, "clients.records": 4}
    run = fp.run(STUDY, tmp_path / "run", overrides=changes, data=(x, y), quiet=True)
    header = json.loads((run.directory / "records.jsonl").read_text().splitlines()[0])
    assert header["data"]["features"]["of"] == [8, 8]
    assert header["dimension"] == (header["data"]["shape"][0] + 1) * 3
    assert fp.resume(run.directory, data=(x, y), quiet=True).ended == "finished"
    with pytest.raises(FedprivError, match=r"features must be a table such as .* got 'x'$"):
        fp.run(STUDY, tmp_path / "other", overrides=changes | {"data.features": "x"}, data=(x, y), quiet=True)


def test_corruption_strikes_what_a_model_sees_the_features(tmp_path: Path) -> None:
    noise = {"corruption": {"kind": "FeatureNoise", "share": 1.0, "deviation": 5.0}}
    clean = fp.run(STUDY, tmp_path / "clean", overrides={"run.rounds": 1}, quiet=True)
    struck = fp.run(STUDY, tmp_path / "struck", overrides={"run.rounds": 1} | noise, quiet=True)
    assert struck.rounds != clean.rounds


def test_a_dry_run_names_the_features(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(STUDY)
    assert main(["run", str(tmp_path / "own.toml"), "--dry-run"]) == 0
    assert "records of 8 × 8 as 108 features by Histograms" in capsys.readouterr().out


def test_columns_of_the_hub_and_counts_of_other_sets_are_still_called_features() -> None:
    made: Any = data_set_of(Kind("Hub", {"name": "a/b", "features": {"kind": "Histograms", "column": "img"}}))
    assert made.data.features == "img"
    plain: Any = data_set_of(Kind("Hub", {"name": "a/b", "features": "img"}))
    assert plain.features == "img"
    with pytest.raises(FedprivError, match="Histograms are of images"):
        data_set_of(Kind("Synthetic", {"features": {"kind": "Histograms"}})).load()


def test_other_code_of_ones_own_or_another_file_makes_other_data_which_a_run_does_not_go_on_with() -> None:
    own = data_identity("Digits", featured(HALVES))
    assert same_data(own, dict(own))
    for changed in ({"code": "0" * 16}, {"files": ["0" * 64]}):
        assert not same_data(own, {**own, "features": {**own["features"], **changed}})


# --- nodes --------------------------------------------------------------------------------------------------------

POLICY = """
studies = "any"
budget = {{ epsilon = 8.0, delta = 1e-5 }}
unit = "record"
classes = 10
data = {{ kind = "Arrays", path = "{path}", held_out = 0{features} }}
"""


def node_of(folder: Path, features: str) -> Node:
    folder.mkdir(exist_ok=True)
    np.save(folder / "x.npy", RNG.random((20, 8, 8), dtype=np.float32))
    np.save(folder / "y.npy", np.arange(20) % 10)
    policy = POLICY.format(path=folder, features=features).replace(", held_out = 0", "")
    (folder / "policy.toml").write_text(policy)
    return Node.of({"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 1})


ASKED = """
name = "asked"
data = { kind = "Digits", features = { kind = "Histograms", cells = [4] } }
clients = { count = 1, records = 20 }
privacy = { release = { kind = "DpSgd", clip = 1.0, noise = 4.0, sampling = 0.5 } }
run = { rounds = 1 }
"""


def test_a_node_makes_the_features_its_policy_says_of_its_own_records_and_no_others(tmp_path: Path) -> None:
    study = study_file.study_text(study_file.parsed_study(ASKED))
    weights = np.zeros((108 + 1) * 10, np.float32)
    node = node_of(tmp_path / "alike", ', features = { kind = "Histograms", cells = [4] }')
    assert node.answer(study, weights, 1, np.array([0]))
    for name, own in (("none", ""), ("other", ', features = { kind = "Histograms", cells = [2] }')):
        other = node_of(tmp_path / name, own)
        with pytest.raises(Refused, match=r"^the study's data.features: .*they must be alike$"):
            other.answer(study, weights, 1, np.array([0]))


def test_a_node_answers_whatever_one_finite_record_holds(tmp_path: Path) -> None:
    node = node_of(tmp_path / "node", ', features = { kind = "Histograms", cells = [4] }')
    x = np.load(tmp_path / "node" / "x.npy")
    x[0, 3, 3] = 1e25
    np.save(tmp_path / "node" / "x.npy", x)
    study = study_file.study_text(study_file.parsed_study(ASKED))
    assert node.answer(study, np.zeros((108 + 1) * 10, np.float32), 1, np.array([0]))


def test_a_nodes_own_records_are_never_declared_public(tmp_path: Path) -> None:
    node_of(tmp_path / "node", "")
    text = (tmp_path / "node" / "policy.toml").read_text()
    public = ', features = { kind = "own_features:Centred", public = true } }'
    (tmp_path / "node" / "policy.toml").write_text(text.replace('" }\n', f'"{public}\n'))
    with pytest.raises(Refused, match="public = true is of data that are public: a node's own are not"):
        read_policy(tmp_path / "node" / "policy.toml")


def test_a_study_of_a_server_imports_no_feature_map_that_a_policy_does_not_list(tmp_path: Path) -> None:
    node = node_of(tmp_path / "node", "")
    for features in (HALVES, {"kind": "Pretrained", "network": {"kind": "own_features:Small"}, "weights": "a.pt"}):
        study = study_file.parsed_study(ASKED, overrides={"data.features": features})
        with pytest.raises(Refused, match="the study imports 'own_features:"):
            node.answer(study_file.study_text(study), np.zeros(10, np.float32), 1, np.array([0]))


def test_an_audit_of_a_node_whose_records_are_features_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node_of(tmp_path / "node", ', features = { kind = "Histograms", cells = [4] }')
    assert main(["audit", "--node", str(tmp_path / "node"), "--quiet"]) != 0
    assert 'data.features = {cells = [4], kind = "Histograms"}: a node\'s audit' in capsys.readouterr().err


def test_places_are_no_part_of_what_a_node_compares() -> None:
    one = Kind("Arrays", {"path": "a", "features": {"kind": "Cached", "path": "b", "normalise": "none"}})
    other = Kind("Digits", {"features": {"normalise": "none", "kind": "Cached", "path": "c"}})
    assert told_features(one) == told_features(other) == '{kind = "Cached", normalise = "none"}'

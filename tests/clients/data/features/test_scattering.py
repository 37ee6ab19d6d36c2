"""The scattering transform is the published one, by its coefficients, by a slow second way, and by what it must do."""

from __future__ import annotations

from itertools import pairwise
from math import pi
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest import approx

from clients.data.features import Scattering
from fedpriv.errors import FedprivError

# Kymatio's own test (tests/scattering2d/test_data_2d.npz at 11552ed, BSD-3-Clause), its first image: J = 4, L = 8
PUBLISHED = Path(__file__).with_name("kymatio_2d.npz")
NOISE = np.random.default_rng(1).random((6, 28, 28), dtype=np.float32)


def coefficients(image: NDArray[np.float32], **settings: int) -> NDArray[np.float64]:
    found = Scattering(**settings)(image[None])[0]
    side = 2 ** settings.get("scales", 2)
    return found.reshape(-1, image.shape[0] // side, image.shape[1] // side).astype(float)


def test_kymatios_published_coefficients_come_out_but_for_its_3_1415_in_the_place_of_pi() -> None:
    with np.load(PUBLISHED) as data:
        image, published = data["x"], data["Sx"]
    filters = np.repeat([1, 2, 3], [1, 32, 384])  # that a channel of each order went through: each has one factor
    ours = coefficients(image, scales=4) * (pi / 3.1415) ** filters[:, None, None]
    assert ours == approx(published, rel=2e-5, abs=1e-8)
    assert coefficients(image, scales=4, order=1) == approx(coefficients(image, scales=4)[:33])


def convolved(image: NDArray[np.complex128], kernel: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """A circular convolution, pixel by pixel."""
    out = np.zeros(image.shape, complex)
    for i, j in np.argwhere(np.abs(kernel) > 1e-12):
        out += kernel[i, j] * np.roll(image, (i, j), axis=(0, 1))
    return out


def window(size: int, width: float, turn: float, slant: float, frequency: float) -> NDArray[np.complex128]:
    """A Gabor filter of the formula, on a torus of that size."""
    i, j = np.meshgrid(*[np.arange(-3 * size, 3 * size, dtype=float)] * 2, indexing="ij")
    along, across = i * np.cos(turn) + j * np.sin(turn), -i * np.sin(turn) + j * np.cos(turn)
    g = np.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2) + 1j * frequency * along)
    return (g * slant / (2 * pi * width**2)).reshape(6, size, 6, size).sum(axis=(0, 2))


def test_a_second_way_by_convolutions_in_space_gives_the_same_coefficients() -> None:
    image, size, pad = NOISE[0, :12, :12], 20, 4  # 12 and twice 4: what J = 2 pads to
    x = np.pad(image, pad, mode="reflect").astype(complex)
    low = window(size, 1.6, 0.0, 1.0, 0.0)
    found = coefficients(image)
    channel = 1
    for scale in range(2):
        for angle in range(8):
            turn, width = (3 - angle) * pi / 8, 0.8 * 2**scale
            wave, still = window(size, width, turn, 0.5, 0.75 * pi / 2**scale), window(size, width, turn, 0.5, 0.0)
            modulus = np.abs(convolved(x, wave - wave.sum() / still.sum() * still))
            slow = convolved(modulus.astype(complex), low).real[::4, ::4][1:-1, 1:-1]
            # the library works on every second pixel at scale 1, whose aliases are all that it is off by
            assert found[channel] == approx(slow, rel=1e-4 if scale == 0 else 0.1), (scale, angle)
            channel += 1
    assert found[0] == approx(convolved(x, low).real[::4, ::4][1:-1, 1:-1], rel=1e-5)


def test_a_constant_image_has_nothing_but_its_mean_and_brightness_scales_all() -> None:
    flat = coefficients(np.full((28, 28), 0.5, np.float32))
    assert flat[0] == approx(np.full((7, 7), 0.5), rel=1e-4)
    assert np.abs(flat[1:]).max() < 1e-5
    assert coefficients(3 * NOISE[0]) == approx(3 * coefficients(NOISE[0]), rel=1e-4)


def test_the_transform_brings_no_two_images_further_apart() -> None:
    for one, other in pairwise(NOISE):
        apart = np.linalg.norm(coefficients(one) - coefficients(other)) * 4  # a coefficient stands for 4 × 4 pixels
        assert apart <= np.linalg.norm(np.pad(one - other, 4, mode="reflect"))


def test_an_image_moved_by_as_much_as_a_coefficient_stands_for_has_its_coefficients_moved_by_one() -> None:
    image = np.zeros((28, 28), np.float32)
    image[10:16, 8:13] = NOISE[0, :6, :5]
    here, there = coefficients(image), coefficients(np.roll(image, (4, 4), axis=(0, 1)))
    assert there[:, 1:, 1:] == approx(here[:, :-1, :-1], rel=1e-3, abs=1e-5)
    assert here[1:].max() > 0.01


def test_channels_are_as_many_as_paths_and_too_many_scales_are_refused() -> None:
    assert Scattering(scales=3, angles=6)(NOISE[:2, :16, :24].copy()).shape == (2, (1 + 18 + 108) * 2 * 3)
    assert Scattering()(np.zeros((1, 32, 32, 3), np.float32)).shape == (1, 3 * 81 * 8 * 8)
    with pytest.raises(FedprivError, match=r"^scales: 2\^4 is more than the 8 × 8 pixels of an image$"):
        Scattering(scales=4)(np.zeros((1, 8, 8), np.float32))

"""The scattering transform: moduli of wavelet transforms, and of those again, averaged.

Bruna and Mallat, Invariant scattering convolution networks (PAMI 2013), with the Morlet filters, the padding and the
order of channels of Kymatio (Andreux et al., JMLR 2020): its published coefficients come out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import cos, pi, sin
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft2, ifft2

from clients.data.features._images import images_of
from fedpriv._base.arrays import Rows, Vector
from fedpriv.errors import FedprivError, limited, whole, whole_from
from fedpriv.settings import check_fields

Spectrum = NDArray[np.complexfloating]


@dataclass(frozen=True, kw_only=True)
class Scattering:
    """The scattering transform with Morlet wavelets, as in Kymatio: 81 channels of 7 × 7 of a 28 × 28 image."""

    scales: Annotated[int, whole, "J: coefficients are means over about 2^J pixels a side"] = 2
    angles: Annotated[int, whole_from(2), "L: directions of wavelets"] = 8
    order: Annotated[int, whole, limited(most=2), "whether moduli of moduli are taken too: 1 or 2"] = 2

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, records: Rows) -> Rows:
        """The scattering coefficients of a study's images, a row each: channel after channel, of each colour.

        >>> Scattering()(np.zeros((2, 28, 28), np.float32)).shape
        (2, 3969)
        """
        images = images_of(records, "Scattering")
        high, wide = images.shape[2:]
        if 2**self.scales > min(high, wide):
            raise FedprivError(f"scales: 2^{self.scales} is more than the {high} × {wide} pixels of an image")
        padded = [((side + 2**self.scales) // 2**self.scales + 1) * 2**self.scales for side in (high, wide)]
        more = [((to - side) // 2, (to - side + 1) // 2) for to, side in zip(padded, (high, wide), strict=True)]
        x = np.pad(images.reshape(-1, high, wide), ((0, 0), *more), mode="reflect")
        found = coefficients_of(fft2(x), morlet_filters(padded[0], padded[1], self.scales, self.angles), self)
        return np.ascontiguousarray(found.reshape(len(images), -1), np.float32)


class Filters(NamedTuple):
    """Wavelets and their low-pass filter, by Fourier transform, for images at each resolution they are met with."""

    low: list[Vector]  # by resolution
    waves: list[list[Vector]]  # by scale and resolution: (angles, height, width)


def coefficients_of(image: Spectrum, filters: Filters, own: Scattering) -> Vector:
    """All channels (images, channels, height, width) of images given by Fourier transform, in Kymatio's order."""

    def averaged(spectrum: Spectrum, scale: int) -> Vector:
        """What is left of maps at a scale behind the low-pass filter, without the border that was padded."""
        kept = ifft2(thinned(spectrum * filters.low[scale], 2 ** (own.scales - scale))).real[..., 1:-1, 1:-1]
        return kept.reshape(len(image), -1, *kept.shape[-2:])

    first, second = [averaged(image, 0)], list[Vector]()
    for scale in range(own.scales):
        moduli = moduli_of(image[:, None] * filters.waves[scale][0], 2**scale)
        first.append(averaged(moduli, scale))
        deeper = []
        for after in range(scale + 1, own.scales if own.order == 2 else 0):
            again = averaged(moduli_of(moduli[:, :, None] * filters.waves[after][scale], 2 ** (after - scale)), after)
            deeper.append(again.reshape(len(image), own.angles, own.angles, *again.shape[2:]))
        if deeper:
            second.append(np.concatenate(deeper, axis=2).reshape(len(image), -1, *first[0].shape[2:]))
    return np.concatenate([*first, *second], axis=1)


def moduli_of(spectrum: Spectrum, step: int) -> Spectrum:
    """The Fourier transform of the moduli of every `step`-th pixel of maps that are given by theirs."""
    return np.asarray(fft2(np.abs(ifft2(thinned(spectrum, step)))))


def thinned(spectrum: Spectrum, step: int) -> Spectrum:
    """The Fourier transform of every `step`-th pixel of maps, each way, from that of all: aliases added up."""
    if step == 1:
        return spectrum
    *before, high, wide = spectrum.shape
    parts = spectrum.reshape(*before, step, high // step, step, wide // step)
    found = np.zeros_like(parts[..., 0, :, 0, :])
    for i in range(step):
        for j in range(step):
            found += parts[..., i, :, j, :]
    found *= np.float32(1 / step**2)
    return found


@lru_cache(maxsize=4)
def morlet_filters(high: int, wide: int, scales: int, angles: int) -> Filters:
    """The Morlet filter bank of padded images of that size: slant 4/L, frequency 3π/4 and width 0.8 at the finest."""

    def wave(scale: int, angle: int) -> Vector:
        """A wavelet's Fourier transform, which is real: a wave in a Gaussian window, brought to sum 0."""
        width, turn, slant = 0.8 * 2**scale, (angles - angles // 2 - 1 - angle) * pi / angles, 4 / angles
        window = gabor_filter(high, wide, width, turn, 0.0, slant)
        waved = gabor_filter(high, wide, width, turn, 0.75 * pi / 2**scale, slant)
        return np.real(fft2(waved - waved.sum() / window.sum() * window))

    waves = []
    for scale in range(scales):
        own = [wave(scale, angle) for angle in range(angles)]
        kept = range(min(scale + 1, max(scales - 1, 1)))
        waves.append([np.stack([folded_filter(each, depth) for each in own]) for depth in kept])
    low = np.real(fft2(gabor_filter(high, wide, 0.8 * 2 ** (scales - 1), 0.0, 0.0, 1.0)))
    return Filters([folded_filter(low, depth) for depth in range(scales)], waves)


def gabor_filter(high: int, wide: int, width: float, turn: float, frequency: float, slant: float) -> Spectrum:
    """A wave of some direction and frequency in a Gaussian window of some width and slant, wrapped around the image."""
    across = np.array([[cos(turn), -sin(turn)], [sin(turn), cos(turn)]])
    curve = across @ np.diag([1.0, slant * slant]) @ across.T / (2 * width * width)
    found = np.zeros((high, wide), np.complex128)
    for above in range(-2, 3):
        for beside in range(-2, 3):
            i, j = np.mgrid[above * high : (above + 1) * high, beside * wide : (beside + 1) * wide].astype(float)
            window = curve[0, 0] * i * i + 2 * curve[0, 1] * i * j + curve[1, 1] * j * j
            found += np.exp(-window + 1j * frequency * (i * cos(turn) + j * sin(turn)))
    return found * slant / (2 * pi * width * width)


def folded_filter(spectrum: Vector, depth: int) -> Vector:
    """A filter's Fourier transform for images of every 2^depth-th pixel: its frequencies above theirs are left out."""
    high, wide = spectrum.shape
    kept = spectrum.copy()
    for axis, size in enumerate((high, wide)):
        first = int(size * 2 ** (-depth - 1))
        gone = [slice(None), slice(None)]
        gone[axis] = slice(first, first + int(size * (1 - 2.0**-depth)))
        kept[tuple(gone)] = 0
    step = 2**depth
    return np.asarray(kept.reshape(step, high // step, step, wide // step).sum(axis=(0, 2)), np.float32)

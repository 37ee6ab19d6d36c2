"""The figures of [M]: private and robust means of Gaussian mixtures."""

"""Symbols as bytes, and exact sums of them."""

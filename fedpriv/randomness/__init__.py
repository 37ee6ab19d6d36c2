"""Draws whose probabilities are exactly those of the proofs, from streams that do not depend on who runs what."""

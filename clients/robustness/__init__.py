"""Attacks on the inputs of a trained network, and predictions that are certified against them."""

"""Softmax regression on handwritten digits, as a Flower app."""

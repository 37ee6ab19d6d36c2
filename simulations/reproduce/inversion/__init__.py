"""Gradient inversion: what an honest-but-curious server makes of one client's message, picture beside picture."""

NAME = "inversion"
ABOUT = "gradient inversion: a record as it is found again in floats, in one bit a coordinate, in a private message"

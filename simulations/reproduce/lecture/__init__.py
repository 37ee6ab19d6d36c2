"""The lecture's figure of DP-SGD: accuracy against ε, and what each of the lecture's improvements is worth."""

NAME = "lecture-figure"
ABOUT = "[L]: accuracy of DP-SGD against ε, plain and with each of the lecture's improvements"

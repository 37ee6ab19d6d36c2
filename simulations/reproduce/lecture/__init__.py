"""The lecture's figure of DP-SGD: accuracy against ε, by what each of its improvements is worth."""

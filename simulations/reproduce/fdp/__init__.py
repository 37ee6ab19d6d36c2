"""The figures of [F]: tradeoff curves, and attackers survived."""

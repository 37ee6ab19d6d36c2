"""The papers' figures again, from our own numbers, each with its claims checked against them."""

"""A deployed node: its policy, keys and records, and the guard that answers within them."""

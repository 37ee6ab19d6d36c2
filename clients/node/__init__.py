"""A deployed node: its policy, ledger, keys and records, and the guard that answers within them."""

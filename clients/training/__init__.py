"""A client's part in a round: batches, gradients, attackers, releases, and the cohort that hosts them."""

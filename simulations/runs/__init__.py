"""Runs of a study without Flower: the direct driver, the run's directory, and what a run would cost."""

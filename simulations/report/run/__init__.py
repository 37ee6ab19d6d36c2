"""The report of a run, or of several side by side."""

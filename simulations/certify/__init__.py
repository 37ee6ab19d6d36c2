"""Certified accuracy and accuracy under attack of a run's network."""

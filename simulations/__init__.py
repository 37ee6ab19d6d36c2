"""Command line, launch, sweeps and reports."""

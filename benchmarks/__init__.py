"""Measurements beside other projects: a package, for Opacus installs one of the same name."""

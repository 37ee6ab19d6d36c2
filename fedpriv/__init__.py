"""The mathematics of fedpriv: numpy, scipy and the standard library, nothing else."""

"""Sums that nobody sees the parts of: pairwise masks with recovery from dropouts, between Flower's nodes.

Bonawitz et al., Practical Secure Aggregation (CCS 2017), on the sparse graph of Bell et al., Secure Single-Server
Aggregation with (Poly)Logarithmic Overhead (CCS 2020). docs/security.md says what it protects and what not.

Flower has building blocks of its own, which are not used: they stand in modules that it does not export and that move
between versions, and their mask generator (`pseudo_rand_gen` of flwr 1.41) folds the key into 32 bits that seed a
Mersenne twister, which whoever sees the masked vectors can search through; it never draws the largest residue either.
"""

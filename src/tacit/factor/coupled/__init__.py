"""Coupled factorisation: several matrices and tensors that share factors by name."""

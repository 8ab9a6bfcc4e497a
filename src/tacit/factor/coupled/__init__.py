"""Coupled factorisation: several matrices and tensors, explained by factors that they share by name."""

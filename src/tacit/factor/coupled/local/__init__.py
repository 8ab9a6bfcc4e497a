"""Counts that leave their site only with noise (local privacy), and Poisson factorisation of such counts."""

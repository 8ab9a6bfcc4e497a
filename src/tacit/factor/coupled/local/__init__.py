"""Counts that leave their site with noise only (local privacy), and Poisson factorisation of such counts."""

"""Measures of fitted models: topics, and how well factors reconstruct the data."""

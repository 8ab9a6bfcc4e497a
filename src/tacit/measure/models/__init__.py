"""Measures of fitted models: topics, and reconstruction errors."""

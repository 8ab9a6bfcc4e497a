"""Measures of fitted models: topics, and reconstruction errors.

May be imported by whoever may import `measure`.
"""

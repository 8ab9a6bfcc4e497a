"""Figures and self-contained HTML reports."""

from tacit.report.page import Report

__all__ = ["Report"]

"""Readers of the data sets of the papers, in their official formats; each module registers some."""

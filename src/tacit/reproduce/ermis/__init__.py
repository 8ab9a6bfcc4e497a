"""Ermis (2020), chapters 6 to 8: coupled factorisation, its private forms, and private networks.

The thesis does not publish its splits, and does not state how it scaled the side matrices, started or stopped. Its private
figures are its best over many settings, for the unit of one cell, by an accounting that does not hold (`tacit reproduce claims`).

May be imported by `tacit.reproduce.catalogue`, which loads it when it is asked for, and by `claims`.
"""

from tacit.reproduce.ermis import counts, links, movies, networks, noise, places, stories, synthetic

__all__ = ["counts", "links", "movies", "networks", "noise", "places", "stories", "synthetic"]

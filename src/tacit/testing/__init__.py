"""For people who write programs: replay a private fit on a neighbouring data set, and see what moves."""

from tacit.testing.neighbours import NeighbourReport, check_neighbours

__all__ = ["NeighbourReport", "check_neighbours"]

"""For people who write programs: replay a private fit on a neighbouring data set, and see what moves.

May be imported by `audit`, and by the tests of programs.
"""

from tacit.testing.neighbours import NeighbourReport, check_neighbours

__all__ = ["NeighbourReport", "check_neighbours"]

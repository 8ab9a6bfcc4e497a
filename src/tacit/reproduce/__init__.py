"""Every table and figure of the five papers: what the paper prints beside what tacit measures.

`catalogue` holds the list, `data` finds the data sets, `outcome` is what a table or figure returns, `results` keeps the
outcomes as JSON files, and `pages` draws them. Each paper is one package, with one function per table or figure; numbers of
the papers are constants beside the function, with page and table.

May be imported by `cli`.
"""

from tacit.reproduce.catalogue import Item, ItemRun, Paper, catalogue, item
from tacit.reproduce.data import DataFolder, MissingData
from tacit.reproduce.outcome import (
    Curve,
    Figure,
    ItemOutcome,
    PictureGrid,
    PictureRow,
    Row,
    SideBySide,
    WordList,
    WordLists,
)

__all__ = [
    "Curve",
    "DataFolder",
    "Figure",
    "Item",
    "ItemOutcome",
    "ItemRun",
    "MissingData",
    "Paper",
    "PictureGrid",
    "PictureRow",
    "Row",
    "SideBySide",
    "WordList",
    "WordLists",
    "catalogue",
    "item",
]

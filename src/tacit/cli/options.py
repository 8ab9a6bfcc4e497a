"""Options that several commands share."""

from __future__ import annotations

import typer

# The numbers below are defaults; each option's help says what it is.
MATRIX = typer.Argument(
    help="A folder of .txt files or of images, texts as jsonl, or a matrix: npz, mtx, npy, csv, parquet. Data in partitions: "
    "files, as in 'rows/*.npz'."
)
RANK = typer.Option(..., "--rank", "-k", help="Number of components.")
EPSILON = typer.Option(None, help="Total privacy loss; without it there is no privacy.")
DELTA = typer.Option(1e-6, help="Failure probability.")
ROW_NORM = typer.Option(None, help="Public bound on the length (L2 norm) of a row; longer rows are scaled down to it.")
FEATURE_RANGE = typer.Option(
    None,
    help="Public range of the features: of all, as in 0:255, or a table with the columns name, low, high.",
)
FRONTIER = typer.Option(
    False,
    "--frontier",
    help="With --epsilon: also draw the error against epsilon, on synthetic data made from what was released (at no cost).",
)
COLUMNS = typer.Option(None, help="For tables: the columns to use, as in age,income; all if not given.")
DROP = typer.Option(None, help="For tables: columns to leave out, as in name,id.")
MISSING = typer.Option(
    "refuse",
    help="For tables, empty cells: refuse, or fill by a number, as in 0; without --epsilon also mean or median.",
)
TEXT_COLUMN = typer.Option(None, help="Rows are texts: the column of the table that holds them.")
IMAGE_SHAPE = typer.Option(None, help="Rows are images of this shape, as in 19x19.")
SPLIT_SEED = typer.Option(0, help="Seed of the start and, without --epsilon, of the split. It protects nothing.")
LEDGER = typer.Option(
    None,
    "--ledger",
    envvar="TACIT_LEDGER",
    help="Ledger to charge; the account is --dataset, or the fingerprint of DATA.",
)
DATASET = typer.Option(None, help="The ledger's account.")
OVERWRITE = typer.Option(False, "--overwrite", help="Replace an earlier result in the output folder.")
JSON = typer.Option(False, "--json", help="Print one JSON object and no progress.")

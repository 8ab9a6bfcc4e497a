"""Options that several commands have, so that they mean the same everywhere."""

from __future__ import annotations

import typer

MATRIX = typer.Argument(help="A folder of .txt files or of images, or a matrix: npz, mtx, npy, csv, parquet.")
RANK = typer.Option(..., "--rank", "-k", help="Number of components.")
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

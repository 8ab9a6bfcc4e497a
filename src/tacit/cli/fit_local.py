"""`tacit fit local`: counts that leave their site with noise only, fitted together with those of other sites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli import options
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tacit.data.tables import Numbers

    pass

DATA = typer.Argument(help="Counts: a matrix (npz, mtx, npy, csv, parquet), or an npy array of any order.")
VIEW = typer.Option([], "--view", help="Noisy counts of another site (its model/view.npz); repeat it.")


def local(
    data: Path = DATA,
    rank: int = options.RANK,
    epsilon: float | None = typer.Option(
        None,
        help="Privacy loss of one cell; without it the own counts are fitted without noise, and nothing may be passed on.",
    ),
    delta_max: int = typer.Option(1, help="Largest change of a cell that is protected."),
    stored: bool = typer.Option(
        False, "--stored", help="Sparse counts: which cells are stored is public, and only these get noise."
    ),
    view: list[Path] = VIEW,
    held_out: float = typer.Option(0.1, help="Fraction of the cells to hold out of all fits; 0 for no measures."),
    sweeps: int = typer.Option(600, help="Sweeps of the sampler; the first half is discarded."),
    frontier: bool = typer.Option(
        False,
        "--frontier",
        help="With --epsilon: also draw the error against epsilon, on synthetic counts made from what was released.",
    ),
    seed: int = typer.Option(0, help="Seed of the sampler. It protects nothing."),
    output: Path = typer.Option(Path("tacit-local"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    as_json: bool = options.JSON,
) -> None:
    """Add noise to every count of a table or tensor at its site, and fit the noisy counts; no one else must be trusted.

    Writes model/view.npz (the noisy counts, for other sites), model/local.tacit, result.json and report.html. Without
    --epsilon, the own counts are fitted without noise, with the views of other sites: for the holder only. If the command is
    stopped after the noise was paid for, model/view.npz is there already.
    """
    from tacit.factor.coupled.local.noise import NoisyCounts
    from tacit.report.local import fit_local_counts
    from tacit.report.result import ResultFolder

    private = epsilon is not None
    stages = 4 if private else 3
    with ResultFolder(output, overwrite=overwrite, data=data), progress(stages, quiet=as_json) as advance:
        advance("reading the counts")
        spending = account(ledger, dataset, data, private=private)
        counts = _counts(data, stored=stored)
        result = fit_local_counts(
            counts,
            rank,
            epsilon=epsilon,
            delta_max=delta_max,
            observed="stored" if stored else None,
            views=[NoisyCounts.load(path) for path in view],
            held_out=held_out,
            frontier=frontier,
            **spending,
            random_state=seed,
            source={"data": str(data.resolve())},
            progress=advance,
            sweeps=sweeps,
            burn_in=sweeps // 2,
        )
        advance("writing the report")
        result.write(output)
    show_fit(result, output, as_json=as_json)


def _counts(path: Path, *, stored: bool) -> Numbers | NDArray[np.generic]:
    """Read counts: sparse ones as they are if it is public which are stored, otherwise with their zeros."""
    import numpy as np

    from tacit.data import read_matrix
    from tacit.data.files import existing_file, reading

    file = existing_file(path)
    if file.suffix.lower() == ".npy":
        with reading(file, "a NumPy array"):
            counts: Numbers | NDArray[np.generic] = np.load(file, allow_pickle=False)
    else:
        counts = read_matrix(file).X
    if stored and isinstance(counts, np.ndarray):
        raise InvalidInputError(
            "a sparse matrix (npz or mtx) with --stored", words("an array"), "Leave --stored out: all cells get noise."
        )
    if stored or isinstance(counts, np.ndarray):
        return counts
    if counts.shape[0] * counts.shape[1] > MOST_CELLS:
        raise InvalidInputError(
            f"at most {MOST_CELLS} cells that all get noise",
            words("more"),
            "Give --stored if it is public which cells are stored, or fewer rows or columns.",
        )
    return counts.toarray()


MOST_CELLS = 50_000_000
"""Most cells of a sparse matrix that is made dense: 400 MB."""

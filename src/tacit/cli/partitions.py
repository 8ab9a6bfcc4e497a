"""Fits of data in partitions: what `tacit fit` does with a pattern of files, --scheduler or --workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    from tacit.estimators.base import Estimator

SCHEDULER = typer.Option(None, help="For data in partitions: the address of a Dask scheduler, as in tcp://host:8786.")
WORKERS = typer.Option(
    None, help="For data in partitions: processes to start on this machine; one per core if not given."
)
BLOCKS = typer.Option(1, help="For data in partitions: divide every file into this many, and read it in batches.")
RESIDENT = typer.Option(
    None, help="For data in partitions: how many of them a worker keeps in memory; the others are read in every round."
)
CHECKPOINT = typer.Option(
    None, help="For data in partitions: folder to go on from if the command or the scheduler dies."
)
DASHBOARD = typer.Option(False, "--dashboard", help="For data in partitions: serve Dask's dashboard on this machine.")
PATTERN = "*?["
STAGES = 8
"""For the bar: starting, about six totals, writing. The lines say which total it is."""
PUBLIC_COLUMNS = "the columns of the table are public"


@dataclass(frozen=True)
class Partitioned:
    """What the options say about data in partitions.

    Attributes
    ----------
    data : Path
        A pattern, as in ``ratings/*.parquet``.
    scheduler, workers, blocks, resident, checkpoint, dashboard
        See `tacit.cluster.run_on`.
    """

    data: Path
    scheduler: str | None
    workers: int | None
    blocks: int
    resident: int | None
    checkpoint: Path | None
    dashboard: bool

    @property
    def wanted(self) -> bool:
        """Whether the data is in partitions."""
        pattern = not self.data.exists() and any(sign in str(self.data) for sign in PATTERN)
        asked = self.scheduler is not None or self.workers is not None or self.checkpoint is not None
        return pattern or asked or self.dashboard or self.blocks > 1 or self.resident is not None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns, if the first file is a table."""
        from tacit.cluster.partitions import partition_paths
        from tacit.data.files import read_columns

        first = partition_paths(str(self.data))[0]
        return tuple(read_columns(first)) if first.lower().endswith((".parquet", ".csv", ".csv.gz", ".tsv")) else None

    def terms(self, vocabulary: Path | None) -> tuple[str, ...] | None:
        """Return the terms that a file lists: words of texts, or the names of a matrix's columns."""
        from tacit.data import read_terms, read_vocabulary

        if vocabulary is None:
            return None
        return read_vocabulary(vocabulary) if str(self.data).endswith(".jsonl") else read_terms(vocabulary)

    def spending(self, ledger: Path | None, dataset: str | None, *, private: bool) -> dict[str, Any]:
        """Return the parameters with which an estimator charges a ledger; the account must be named."""
        if private and ledger is not None and dataset is None:
            raise InvalidInputError(
                "--dataset with --ledger for data in partitions",
                words("none"),
                "Name the account: `tacit budget show`.",
            )
        return account(ledger, dataset, self.data, private=private)

    def fit(
        self,
        estimator: Estimator,
        name: str,
        output: Path,
        *,
        overwrite: bool,
        as_json: bool,
        stages: int,
        **settings: Any,
    ) -> None:
        """Fit, write the folder and show the result; a list of stages is not known in advance without privacy."""
        from tacit.cluster import end_checkpoint
        from tacit.report.partitions import fit_partitions
        from tacit.report.result import ResultFolder

        replace = overwrite or self._was_killed_before_it_wrote(output)
        with ResultFolder(output, overwrite=replace, data=self.data), progress(stages, quiet=as_json) as advance:
            advance("starting the cluster")
            result = fit_partitions(
                estimator,
                str(self.data),
                client=self.scheduler,
                workers=self.workers,
                dashboard=self.dashboard,
                blocks=self.blocks,
                resident=self.resident,
                checkpoint=self.checkpoint,
                keep_checkpoint=True,  # until the model is on disk
                name=name,
                source={"data": str(self.data.absolute())},
                progress=advance,
                **settings,
            )
            advance("writing the report")
            result.write(output)
        if self.checkpoint is not None:
            end_checkpoint(self.checkpoint)
        show_fit(result, output, as_json=as_json)

    def _was_killed_before_it_wrote(self, output: Path) -> bool:
        """Whether the folder holds nothing but the empty one that an earlier call with this checkpoint made."""
        from tacit.cluster.journal import ClusterJournal
        from tacit.report.result import MODEL

        if not ClusterJournal.at(self.checkpoint).is_begun or not (output / MODEL).is_dir():
            return False
        return [path.name for path in output.iterdir()] == [MODEL] and not any((output / MODEL).iterdir())


def whole_data_only(option: str) -> InvalidInputError:
    """Return the error for an option that needs all data at once."""
    return InvalidInputError(
        f"no {option} for data in partitions", words("it"), "It needs all data at once. Leave it out, or give one file."
    )

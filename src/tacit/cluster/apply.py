"""A fitted model applied partition by partition: each is written where it was read, and nothing passes through the driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.cluster.here import Cluster
from tacit.cluster.partitions import Paths, RatingReader, RowReader, partition_paths
from tacit.cluster.run import check_workers, cluster_of, is_small
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import Estimator
from tacit.validation import check_count

if TYPE_CHECKING:
    import polars as pl

Compute = Callable[[Estimator, str], "pl.DataFrame"]


def transform_on(
    client: Cluster | str | None,
    model: Estimator,
    paths: Paths,
    folder: str | os.PathLike[str],
    **reading: Any,
) -> list[Path]:
    """Write the weights of the rows of each file to a file of the same name.

    Parameters
    ----------
    client : distributed.Client, str or None
        The cluster, or the address of its scheduler. None starts one process per core of this machine; files of less than
        32 MB together are read in this process.
    model : estimator
        Fitted, with `transform`.
    paths : str or sequence of path-like
        Partitions, or a pattern: parquet, csv, tsv, npz, npy, mtx or jsonl.
    folder : path-like
        Where the workers write; it must be the same file system for all of them.
    **reading
        `vocabulary` and `unit_rows`, as for `run_on`.

    Returns
    -------
    list of Path
        One Parquet file per partition. Weights depend on the rows without noise: the files are for their holder.
    """
    return _apply_on(client, model, paths, folder, _Weights(RowReader(**reading)))


def predict_on(
    client: Cluster | str | None,
    model: Estimator,
    paths: Paths,
    folder: str | os.PathLike[str],
    **reading: Any,
) -> list[Path]:
    """Write the predictions for the rows of each file to a file of the same name; parameters as for `transform_on`."""
    return _apply_on(client, model, paths, folder, _Predictions(RowReader(**reading)))


def recommend_on(
    client: Cluster | str | None,
    model: Estimator,
    paths: Paths,
    folder: str | os.PathLike[str],
    *,
    n: int = 10,
    columns: Sequence[str] = ("user", "item", "rating"),
    item_type: str | None = None,
) -> list[Path]:
    """Write the best `n` items for every user of each file: the columns user, rank, item and score.

    Parameters
    ----------
    client : distributed.Client, str or None
        As for `transform_on`.
    model : recommender
        A user's factors are found from the user's own ratings in the file.
    paths, folder
        As for `transform_on`.
    n : int, default=10
    columns, item_type
        As for `run_on`; without a third column, interactions have no weights.
    """
    chosen = tuple(columns)
    names = ("user", "item", "rating")[: len(chosen)]
    return _apply_on(client, model, paths, folder, _Lists(RatingReader(chosen, names, item_type), check_count(n, "n")))


class _Weights:
    def __init__(self, read: RowReader) -> None:
        self._read = read

    def __call__(self, model: Estimator, path: str) -> pl.DataFrame:
        import polars as pl

        loaded = self._read(path)
        width = len(model.components_)
        weights = model.transform(*loaded.arguments) if loaded.rows else np.zeros((0, width))
        return pl.DataFrame({f"component_{place + 1}": weights[:, place] for place in range(width)})


class _Predictions:
    def __init__(self, read: RowReader) -> None:
        self._read = read

    def __call__(self, model: Estimator, path: str) -> pl.DataFrame:
        import polars as pl

        loaded = self._read(path)
        return pl.DataFrame({"prediction": model.predict(loaded.arguments[0]) if loaded.rows else []})


class _Lists:
    def __init__(self, read: RatingReader, n: int) -> None:
        self._read, self._n = read, n

    def __call__(self, model: Estimator, path: str) -> pl.DataFrame:
        import polars as pl

        (frame,) = self._read(path).arguments
        columns: dict[str, list[object]] = {"user": [], "rank": [], "item": [], "score": []}
        for (user,), own in frame.group_by("user", maintain_order=True):
            values = () if "rating" not in own.columns else (own["rating"].to_numpy(),)
            for rank, (item, score) in enumerate(
                model.recommend_for(own["item"].to_list(), *values, n=self._n), start=1
            ):
                for name, value in zip(columns, (user, rank, item, score), strict=True):
                    columns[name].append(value)
        return pl.DataFrame(columns)


def _apply_on(
    client: Cluster | str | None,
    model: Estimator,
    paths: Paths,
    folder: str | os.PathLike[str],
    compute: Compute,
) -> list[Path]:
    target, sources = Path(folder), partition_paths(paths)
    names = [Path(path).name.split(".")[0] for path in sources]
    if len(set(names)) != len(names):
        raise InvalidInputError("partitions with different names", parameter(sorted(names)), "Rename the files.")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = [target / f"{name}.parquet" for name in names]
    with cluster_of(client, small=is_small(sources)) as cluster:
        check_workers(cluster)
        shared = cluster.scatter(model, broadcast=True)
        futures = [
            cluster.submit(_write, compute, shared, path, str(output.absolute()), pure=False)
            for path, output in zip(sources, written, strict=True)
        ]
        errors = [future.exception() for future in futures]  # of all, so that no task writes after this call
    for error in errors:
        if error is not None:
            raise error
    return written


def _write(compute: Compute, model: Estimator, source: str, output: str) -> None:
    """Compute and write one file, complete or not at all."""
    from polars.exceptions import PolarsError  # its name for a full disk

    frame, partial = compute(model, source), Path(f"{output}.partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))  # they describe the rows
        frame.write_parquet(partial)
        os.replace(partial, output)
    except (OSError, PolarsError) as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise InvalidInputError(
            f"a folder that can be written to, for {Path(output).name}",
            words(getattr(error, "strerror", None) or type(error).__name__),
            "Free space, or give another folder; files that are there are complete.",
        ) from None

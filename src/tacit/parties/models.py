"""What can be fitted among parties, and how a party's file becomes the data of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data import read_matrix
from tacit.errors import InvalidInputError, Undisclosed, words
from tacit.estimators.registry import JOBS, RATINGS, RELATIONS
from tacit.factor.coupled.outlines import Site
from tacit.parties.job import Job
from tacit.parties.relations import check_sites
from tacit.validation import check_choice


@dataclass(frozen=True, repr=False)
class PartyData(Undisclosed):
    """A party's own records, in the columns of the job; for coupled models a `Site`."""

    X: Any
    y: Any = None

    @property
    def content(self) -> Any:
        """All of it, as arrays that can be compared."""
        if isinstance(self.X, Site):
            return tuple(self.X.arrays())
        return self.X if self.y is None else (self.X, self.y)

    @property
    def records(self) -> int:
        """Number of rows; of relations, of known cells."""
        return self.X.n_cells if isinstance(self.X, Site) else int(self.X.shape[0])


def estimator_of(job: Job) -> Any:
    """Return the job's estimator, not yet fitted."""
    model = JOBS[check_choice(job.model, "model", JOBS)]
    missing = [name for name in model.needs if job.settings.get(name) is None]
    if missing:
        raise InvalidInputError(
            f"the setting {missing[0]!r} in the job",
            words("none"),
            "All parties must use the same, and none may take it from its own data.",
        )
    ranges = ("rating_range", "value_range")
    settings = {key: tuple(value) if key in ranges else value for key, value in job.settings.items()}
    try:
        return model.load_class()(**settings)
    except TypeError as error:
        raise InvalidInputError(
            f"settings of {model.name}", words(str(error)), "Check [settings] in the job."
        ) from error


def check_job(job: Job) -> None:
    """Raise unless the job's settings are those of its model and, for coupled models, the parties' relations fit together."""
    estimator = estimator_of(job)
    if JOBS[job.model].data == RELATIONS:
        check_sites(job.features, [party.name for party in job.parties], getattr(estimator, "private", None))


def read_party_data(path: str | Path, job: Job, party: str) -> PartyData:
    """Read a party's file, and refuse what does not fit the job; errors name the party."""
    model = JOBS[check_choice(job.model, "model", JOBS)]
    if model.data == RATINGS and Path(path).suffix in (".csv", ".parquet"):
        return PartyData(_ratings(path, job, party))
    matrix = read_matrix(path)
    names, X, y = matrix.names, matrix.X, None
    wanted = list(job.features) + ([job.target] if job.target else [])
    if names is not None:
        check_same_columns(list(names), wanted, party)
    elif X.shape[1] != len(wanted):
        raise InvalidInputError(
            f"{len(wanted)} columns from {party}", words(f"{X.shape[1]} in {Path(path).name}"), "Use the job's columns."
        )
    if job.target:
        last: Any = X[:, [-1]]
        X, y = X[:, :-1], np.asarray(last.toarray() if hasattr(last, "toarray") else last).ravel()
    return check_party_data(PartyData(X, y), job, party)


def check_party_data(data: PartyData, job: Job, party: str, *, private: str | None = None) -> PartyData:
    """Raise unless the records fit the job: some rows, its columns, finite numbers."""
    if isinstance(data.X, Site):  # which has checked its relations
        check_sites(job.features, [one.name for one in job.parties], private)
        return data
    rows, columns = data.X.shape
    if rows == 0:
        raise InvalidInputError(
            f"at least one record from {party}", words("none"), "A party without data does not take part."
        )
    if columns != len(job.features):
        raise InvalidInputError(
            f"{len(job.features)} columns from {party}", words(f"{columns}"), "Use the job's columns."
        )
    values = data.X.data if hasattr(data.X, "tocsr") else np.asarray(data.X)
    if not np.isfinite(values).all():
        raise InvalidInputError(
            f"finite numbers from {party}", words("NaN or infinity"), "Correct or drop these records."
        )
    return data


def check_same_columns(names: list[str], wanted: list[str], party: str) -> None:
    """Raise unless the columns are the job's, in its order; say which is the first that is not."""
    if names == wanted:
        return
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    if missing or extra:
        got = "; ".join(
            f"{what} {', '.join(map(repr, found[:5]))}" for what, found in (("no", missing), ("also", extra)) if found
        )
        raise InvalidInputError(
            f"the job's {len(wanted)} columns from {party}", words(got), "Select the job's columns."
        )
    place = next(index for index, pair in enumerate(zip(names, wanted, strict=True)) if pair[0] != pair[1])
    raise InvalidInputError(
        f"column {place + 1} from {party} to be {wanted[place]!r}",
        words(f"{names[place]!r}: the columns are in another order"),
        "Put them into the job's order.",
    )


def _ratings(path: str | Path, job: Job, party: str) -> Any:
    """Return a users x features sparse matrix from a table of user, item and rating."""
    from scipy.sparse import csr_array

    from tacit.data.frames import read_frame

    frame = read_frame(path)
    if not {"user", "item", "rating"} <= set(frame.columns):
        raise InvalidInputError(f"columns user, item and rating from {party}", words("others"), "Rename the columns.")
    if frame.is_empty():
        raise InvalidInputError(
            f"at least one rating from {party}", words("none"), "A party without data does not take part."
        )
    columns = {name: index for index, name in enumerate(job.features)}
    items = [str(item) for item in frame["item"].to_list()]
    unknown = [item for item in items if item not in columns]
    if unknown:
        raise InvalidInputError(
            f"items of the job from {party}", words("other items"), "Drop ratings of items that the job does not list."
        )
    users = frame["user"].rank("dense").to_numpy().astype(np.int64) - 1
    entries = (frame["rating"].to_numpy().astype(np.float64), (users, [columns[item] for item in items]))
    return csr_array(entries, shape=(int(users.max()) + 1, len(columns)))

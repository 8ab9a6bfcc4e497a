"""What can be fitted among parties, and how a party's file becomes the data of a job."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.channel.directions.summer import MOST_PARTIES
from tacit.data import TableSchema, read_matrix
from tacit.errors import InvalidInputError, Undisclosed, kind_of, parameter, words
from tacit.estimators.base import in_file
from tacit.estimators.private import PrivateFit
from tacit.estimators.registry import JOBS, RATINGS, RECORDS, RELATIONS
from tacit.estimators.saved import SavedModel
from tacit.factor.coupled.outlines import Site
from tacit.parties.job import Job
from tacit.parties.relations import check_sites
from tacit.validation import check_choice

if TYPE_CHECKING:
    import polars as pl
    from scipy import sparse

MOST_EPSILON = 100.0
"""An epsilon above this, in a job that someone else wrote, counts as none: the noise hides nobody."""
_ACCEPT = (
    "Have the job made with a guarantee; or accept that there is none: `tacit parties join --accept-no-guarantee`."
)


@dataclass(frozen=True, repr=False)
class PartyData(Undisclosed):
    """A party's own records, in the columns of the job; for coupled models a `Site`."""

    X: Any
    y: object = None

    @property
    def content(self) -> object:
        """All of it, as arrays that can be compared."""
        if isinstance(self.X, Site):
            return tuple(self.X.arrays())
        return self.X if self.y is None else (self.X, self.y)

    @property
    def records(self) -> int:
        """Number of rows; of relations, of known cells."""
        return self.X.n_cells if isinstance(self.X, Site) else int(self.X.shape[0])


def estimator_of(job: Job, *, accept_no_guarantee: bool = False) -> SavedModel:
    """Return the job's estimator, not yet fitted.

    A job is written by someone else. It may name only parameters that a saved model holds too, and none that voids the
    guarantee of a private model: no epsilon above 100, no fixed seed of the noise, no method without a guarantee.

    Parameters
    ----------
    job : Job
    accept_no_guarantee : bool, default=False
        This party accepts a private model whose settings void its guarantee.
    """
    model = JOBS[check_choice(job.model, "model", JOBS)]
    missing = [name for name in model.needs if job.settings.get(name) is None]
    if missing:
        raise InvalidInputError(
            f"the setting {missing[0]!r} in the job",
            words("none"),
            "All parties must use the same, and none may take it from its own data.",
        )
    cls = model.load_class()
    allowed = in_file(cls) | ({"insecure_seed"} if accept_no_guarantee else set())
    for name in job.settings:
        if name in inspect.signature(cls).parameters and name not in allowed:
            raise InvalidInputError(
                f"public parameters of {model.name} in the job's [settings]",
                parameter(name),
                _ACCEPT if name == "insecure_seed" else f"Each party decides about {name} by itself: leave it out.",
            )
    ranges = ("rating_range", "value_range")
    settings = {key: _as_range(value) if key in ranges else value for key, value in job.settings.items()}
    if model.data == RECORDS:
        settings["schema"] = _schema(settings["schema"])
    try:
        estimator = cls(**settings)
    except TypeError as error:
        raise InvalidInputError(
            f"settings of {model.name}", words(str(error)), "Check [settings] in the job."
        ) from error
    if isinstance(estimator, PrivateFit) and not accept_no_guarantee:
        # nobody else may declare a user of this party a volunteer
        largest, some = (
            _largest(estimator.epsilon),
            "" if isinstance(estimator.epsilon, float | int) else " for some users",
        )
        voided = estimator.voided_by() or (f"epsilon={largest:g}{some}" if largest > MOST_EPSILON else None)
        if voided is not None:
            raise InvalidInputError(
                f"settings with which {model.name} has a guarantee (epsilon at most {MOST_EPSILON:g})",
                words(voided),
                _ACCEPT,
            )
    return estimator


def _as_range(value: Any) -> Any:
    """Return a range, or the ranges of a mapping, as tuples: TOML has lists."""
    if isinstance(value, Mapping):
        return {name: _as_range(one) for name, one in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _largest(epsilon: float | ArrayLike | Mapping[object, float]) -> float:
    """Return a budget, or the largest budget of any user."""
    given = list(epsilon.values()) if isinstance(epsilon, Mapping) else epsilon
    return float(np.max(np.asarray(given, dtype=float), initial=0.0))


def _schema(given: Any) -> TableSchema:
    """Return the schema in a job's settings; a draft that nobody has confirmed is refused."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            "a table schema in the job's [settings]", kind_of(given), "Make the job with --schema columns.toml."
        )
    schema = TableSchema.from_dict(given)
    schema.check_public()
    return replace(schema, left_out=())  # columns that are left out stay with each party, which may have others


def record_columns(schema: TableSchema, unit_column: str | int | None) -> list[str]:
    """Return the columns that every party's file of records must have."""
    return [*schema.columns, *([] if unit_column is None else [str(unit_column)])]


def check_job(job: Job, *, accept_no_guarantee: bool = False) -> None:
    """Raise unless the job's settings are those of its model and, for coupled models, the parties' relations fit together."""
    estimator = estimator_of(job, accept_no_guarantee=accept_no_guarantee)
    if JOBS[job.model].data == RELATIONS:
        names = [party.name for party in job.parties]
        check_sites(job.features, names, getattr(estimator, "private", None), estimator)
    if JOBS[job.model].data == RECORDS:
        wanted = record_columns(estimator.schema, estimator.unit_column)
        if sorted(job.features) != sorted(wanted):
            raise InvalidInputError(
                "the columns of the schema as the job's features", words("others"), "Make the job with --schema alone."
            )
    hides = job.hide_norms and getattr(estimator, "hide_singular_values", False)
    if hides and job.survive:
        raise InvalidInputError(
            "survive = 0 where singular values are hidden",
            parameter(job.survive),
            "Normalised sums do not survive dropouts: set survive = 0, or hide_singular_values=false.",
        )
    if hides and len(job.parties) > MOST_PARTIES:
        raise InvalidInputError(
            f"at most {MOST_PARTIES} parties where singular values are hidden",
            parameter(len(job.parties)),
            "Set hide_singular_values=false in the job: the parties then learn the singular values, and the guarantee says so.",
        )


INTERACTIONS = "private-implicit"
"""The model whose tables need no ratings."""


def read_party_data(path: str | Path, job: Job, party: str) -> PartyData:
    """Read a party's file, and refuse what does not fit the job; errors name the party."""
    model = JOBS[check_choice(job.model, "model", JOBS)]
    if model.data == RATINGS and Path(path).suffix in (".csv", ".parquet"):
        return PartyData(_ratings(path, job, party))
    if model.data == RECORDS:
        return check_party_data(PartyData(_records(path, job, party)), job, party)
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
    # records of other kinds than numbers are checked by the model's schema
    if values.dtype.kind in "biufc" and not np.isfinite(values).all():
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
            f"{what} {', '.join(map(repr, names[:5]))}" for what, names in (("no", missing), ("also", extra)) if names
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


def _records(path: str | Path, job: Job, party: str) -> pl.DataFrame:
    """Return a data frame of text with the job's columns; columns that the schema leaves out stay here."""
    from tacit.data.files import read_frame

    frame = read_frame(path, as_text=True)
    left_out = set(job.settings["schema"].get("left_out", ())) - set(job.features)
    names = [name for name in frame.columns if name not in left_out]
    check_same_columns(sorted(names), sorted(job.features), party)
    for name, spec in TableSchema.from_dict(job.settings["schema"]).columns.items():
        spec.cells(frame[name].to_numpy(), name)  # a cell that does not fit is refused here, before anything is sent
    return frame.select(job.features)


def _ratings(path: str | Path, job: Job, party: str) -> sparse.csr_array:
    """Return a users x features sparse matrix from a table of user, item and rating; of interactions, weights are optional."""
    from scipy.sparse import csr_array

    from tacit.data.files import read_frame

    frame = read_frame(path)
    interactions = job.model == INTERACTIONS
    values = [
        name for name in (("weight", "count", "rating") if interactions else ("rating",)) if name in frame.columns
    ]
    if not {"user", "item"} <= set(frame.columns) or not (values or interactions):
        wanted = "user and item (and weight, if there are any)" if interactions else "user, item and rating"
        raise InvalidInputError(f"columns {wanted} from {party}", words("others"), "Rename the columns.")
    if frame.is_empty():
        raise InvalidInputError(
            f"at least one rating from {party}", words("none"), "A party without data does not take part."
        )
    if not (interactions and values):
        # as in a fit of one holder: the last rating counts, a repeated interaction once; weights are added up
        frame = frame.unique(["user", "item"], keep="last", maintain_order=True)
    columns = {name: index for index, name in enumerate(job.features)}
    items = [str(item) for item in frame["item"].to_list()]
    unknown = [item for item in items if item not in columns]
    if unknown:
        raise InvalidInputError(
            f"items of the job from {party}", words("other items"), "Drop rows with items that the job does not list."
        )
    users = frame["user"].rank("dense").to_numpy().astype(np.int64) - 1
    numbers = frame[values[0]].to_numpy().astype(np.float64) if values else np.ones(len(frame))
    return csr_array((numbers, (users, [columns[item] for item in items])), shape=(int(users.max()) + 1, len(columns)))

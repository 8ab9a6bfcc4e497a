"""Reads a command line of `tacit fit` or `tacit perturb` as an estimator with its settings and data, without running it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, Undisclosed, parameter, words

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

    from tacit.cli.read import ChosenColumns
    from tacit.estimators.base import Estimator

IRRELEVANT = frozenset(
    {"output", "overwrite", "report", "as_json", "ledger", "dataset", "held_out", "length", "frontier", "seed"}
)
"""Options that change neither the noisy sums of a fit nor its data, for an attacker who knows them: an audit needs none."""


class Options(Mapping[str, Any]):
    """The options of a command; it knows which of those that were given have been used."""

    def __init__(self, values: Mapping[str, Any], given: Iterable[str]) -> None:
        self._values, self._unused = dict(values), set(given) - IRRELEVANT

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        self._unused.discard(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def check_all_used(self) -> None:
        """Refuse a command with an option that the audit would ignore: it would audit another fit."""
        if self._unused:
            names = ", ".join(sorted(f"--{name.replace('_', '-')}" for name in self._unused))
            raise InvalidInputError(
                "a command with options that an audit can follow",
                words(names),
                "Leave these options out, or audit the estimator in Python: tacit.audit.audit.",
            )


@dataclass(frozen=True, repr=False)
class Audited(Undisclosed):
    """An estimator that is not fitted, its data, and the file that they are from."""

    estimator: Estimator
    data: Any
    file: Path = Path()


def audited_command(command: list[str]) -> Audited:
    """Return what a command would fit with privacy.

    Parameters
    ----------
    command : list of str
        The arguments of `tacit`, as in ["fit", "nmf", "rows.csv", "--rank", "5", "--epsilon", "1"].
    """
    name, arguments = (
        (command[1], command[2:]) if command[0] == "fit" and len(command) > 1 else (command[0], command[1:])
    )
    read = READERS.get(name)
    if read is None or (command[0] != "fit") != (name == "perturb"):
        raise InvalidInputError(
            "a command such as fit nmf DATA --rank 5 --epsilon 1",
            parameter(" ".join(command[:2])),
            "tacit audit reads fit nmf, svd, pca, pcr, recommend, neural and coupled, and perturb --method private-table.",
        )
    options = _parsed(command[0], name, arguments)
    audited = read(options)
    options.check_all_used()
    return replace(audited, file=next(Path(options[name]) for name in ("data", "table", "spec") if name in options))


def _parsed(group: str, name: str, arguments: list[str]) -> Options:
    """Return the options that a command would get."""
    import typer

    from tacit.cli.fit import app as fit
    from tacit.cli.perturb import perturb
    from tacit.cli.wording import refuse_repeated

    if group == "fit":
        commands: Any = typer.main.get_command(fit)
        command = commands.commands[name]
    else:
        single = typer.Typer()
        single.command()(perturb)
        command = typer.main.get_command(single)
    refuse_repeated(command, arguments)
    context = command.make_context(name, list(arguments))
    sources = {option: context.get_parameter_source(option) for option in context.params}
    options = Options(context.params, [option for option, source in sources.items() if source.name == "COMMANDLINE"])
    if "epsilon" in options and options["epsilon"] is None:
        raise InvalidInputError(
            "--epsilon of the audited command", words("none"), "Give it: there is no claim without one."
        )
    return options


def _nmf(options: Options) -> Audited:
    from tacit.cli.fit_nmf import PAID, ranks_of
    from tacit.cli.read import image_shape_of, prepare
    from tacit.factor.nmf.private import PrivateNMF

    ranks = ranks_of(options["rank"])
    if len(ranks) > 1 or options["vocabulary"] == PAID:
        raise InvalidInputError(
            "one --rank and a public vocabulary",
            words("a range of ranks, or a paid vocabulary"),
            "Audit the fit with one rank and a file of terms.",
        )
    norm, shape = options["row_norm"], options["image_shape"]
    rows = prepare(
        Path(options["data"]),
        private=True,
        unit_rows=norm is None if options["unit_rows"] is None else options["unit_rows"],
        vocabulary=options["vocabulary"],
        idf=options["idf"],
        shape=None if shape is None else image_shape_of(shape),
        stem=options["stem"],
        chosen=_chosen(options),
    )
    model = PrivateNMF(
        ranks[0],
        epsilon=options["epsilon"],
        delta=options["delta"],
        row_norm=1.0 if norm is None else norm,
        outliers=options["outliers"],
        method=options["method"],
        random_state=options["seed"],
    )
    return Audited(model, rows.X)


def _chosen(options: Options) -> ChosenColumns:
    """Return the columns of the table that the command reads."""
    from tacit.cli.read import chosen_columns

    columns, drop, missing = (options[name] for name in ("columns", "drop", "missing"))
    return chosen_columns(columns, drop, missing, options.get("text_column"), private=True)


def _components(kind: str) -> Callable[[Options], Audited]:
    def read(options: Options) -> Audited:
        from tacit.cli.fit_svd import _bounds
        from tacit.cli.read import prepare
        from tacit.factor.svd.private import PrivatePCA, PrivateSVD

        unit_rows = options["unit_rows"]
        rows = prepare(
            Path(options["data"]),
            private=True,
            unit_rows=unit_rows,
            vocabulary=options["vocabulary"],
            idf="uniform",
            shape=None,
            chosen=_chosen(options),
        )
        texts = rows.counts is not None
        epsilon, known = options["epsilon"], unit_rows or texts
        bounds = _bounds(epsilon, options["row_norm"], options["feature_range"], rows.names, unit_rows=known)
        model = (PrivateSVD if kind == "svd" else PrivatePCA)(
            options["rank"],
            epsilon=epsilon,
            delta=options["delta"],
            non_negative=options["non_negative"] or texts,
            **bounds,
        )
        return Audited(model, rows.X)

    return read


def _regression(options: Options) -> Audited:
    from tacit.cli.fit_svd import _bounds
    from tacit.cli.read import range_of, read_labelled
    from tacit.factor.svd.private import PrivatePCR

    rows = read_labelled(Path(options["data"]), options["label"], _chosen(options))
    bounds = _bounds(options["epsilon"], options["row_norm"], options["feature_range"], rows.names, unit_rows=False)
    model = PrivatePCR(
        options["rank"],
        epsilon=options["epsilon"],
        delta=options["delta"],
        target_range=range_of(options["label_range"] or "", "--label-range"),
        **bounds,
    )
    return Audited(model, (rows.X, rows.y))


def _recommend(options: Options) -> Audited:
    from tacit.cli.read import range_of, read_catalogue, read_item_features, read_ratings_file
    from tacit.factor.implicit.private import PrivateImplicitRecommender
    from tacit.factor.ratings.private import PrivateRecommender

    implicit, catalogue = options["implicit"], options["catalogue"]
    columns = options["columns"] or ("user,item" if implicit else "user,item,rating")
    if catalogue is None:
        raise InvalidInputError("--catalogue with --epsilon", words("none"), "Give the list of all items.")
    items = read_catalogue(Path(catalogue), columns, implicit=implicit)
    frame = read_ratings_file(Path(options["data"]), columns, items, implicit=implicit)
    settings = {"epsilon": options["epsilon"], "delta": options["delta"], "features": None}
    named, titles = options["features"], options["titles"] if implicit else None
    if named is not None or titles is not None:
        settings["features"] = read_item_features(Path(catalogue), columns, named, titles, implicit=implicit)
    if not implicit:
        model = PrivateRecommender(
            options["factors"],
            rating_range=range_of(options["rating_range"], "--rating-range"),
            catalogue=items.to_list(),
            **settings,
        )
        return Audited(model, tuple(frame[name].to_numpy() for name in ("user", "item", "rating")))
    return Audited(PrivateImplicitRecommender(weighting=options["weighting"], **settings), _as_matrix(frame, items))


def _as_matrix(frame: pl.DataFrame, items: pl.Series) -> csr_array:
    """Return interactions as a users x items matrix, with the items in the order of the catalogue."""
    import numpy as np
    from scipy.sparse import coo_array

    place = {item: index for index, item in enumerate(items.to_list())}
    users = np.unique(frame["user"].to_numpy(), return_inverse=True)[1]
    weights = frame["weight"].to_numpy() if "weight" in frame.columns else np.ones(len(frame))
    columns = np.array([place.get(item, -1) for item in frame["item"].to_list()])
    if (columns < 0).any():
        raise InvalidInputError("items of the catalogue", words("others"), "Complete the catalogue.")
    matrix = coo_array((weights.astype(float), (users, columns)), shape=(int(users.max()) + 1, len(place)))
    return matrix.tocsr()


def _neural(options: Options) -> Audited:
    from tacit.cli.fit_neural import _feature_range, _widths
    from tacit.cli.read import image_shape_of, labels_among, range_of, read_classes, read_labelled
    from tacit.neural import PrivateBayesianClassifier, PrivateBayesianRegressor

    rows = read_labelled(Path(options["data"]), options["label"], _chosen(options))
    shape = options["image_shape"]
    settings: dict[str, Any] = {
        "epsilon": options["epsilon"],
        "delta": options["delta"],
        "method": options["method"],
        "features": None if options["features"] == "none" else options["features"],
        "epochs": options["epochs"],
        "sampling_rate": options["sampling_rate"],
        "clip": options["clip"],
        "image_shape": rows.shape if shape is None else image_shape_of(shape),
        "feature_range": _feature_range(rows, options["feature_range"], private=True),
        "random_state": options["seed"],
        **({} if options["step_size"] is None else {"step_size": options["step_size"]}),
    }
    hidden = _widths(options["hidden"])
    if options["label_range"] is not None:
        target_range = range_of(options["label_range"], "--label-range")
        return Audited(PrivateBayesianRegressor(hidden, target_range=target_range, **settings), (rows.X, rows.y))
    if options["classes"] is None:
        raise InvalidInputError("--classes with --epsilon", words("none"), "Name every class that may occur.")
    named = read_classes(options["classes"])
    return Audited(
        PrivateBayesianClassifier(hidden, classes=tuple(named.tolist()), **settings),
        (rows.X, labels_among(rows.y, named)),
    )


def _coupled(options: Options) -> Audited:
    from tacit.cli.fit_coupled import given_settings, private_settings
    from tacit.cli.read_coupled import read_description
    from tacit.factor.coupled.private.estimator import PrivateCoupledFactorization

    spec = Path(options["spec"])
    read = read_description(spec)
    given = given_settings(**{name: options[name] for name in ("private", "unit", "protect", "value_range")})
    settings = private_settings(spec, read, given)
    budget = {"epsilon": options["epsilon"], "delta": options["delta"], "random_state": read.seed}
    return Audited(PrivateCoupledFactorization(read.ranks, **budget, **settings), list(read.relations))


def _table(options: Options) -> Audited:
    from tacit.cli.perturb import PRIVATE, _names, _narrowed, _stated
    from tacit.cli.read import read_table
    from tacit.synthetic import PrivateTable

    if options["method"] != PRIVATE:
        raise InvalidInputError(
            "--method private-table, the only method with a claim",
            parameter(options["method"]),
            "Measure the others with tacit measure.",
        )
    table = Path(options["table"])
    stated = _stated(options["schema"], options["bounds"], options["integers"], options["categories"])
    columns, left_out = _names(options["columns"]), _names(options["left_out"]) or []
    schema = _narrowed(stated, table, columns, left_out, options["missing"])
    frame = read_table(table, as_text=True)
    model = PrivateTable(epsilon=options["epsilon"], delta=options["delta"], schema=schema, label=options["label"])
    return Audited(model, frame)


READERS: Mapping[str, Callable[[Options], Audited]] = {
    "nmf": _nmf,
    "svd": _components("svd"),
    "pca": _components("pca"),
    "pcr": _regression,
    "recommend": _recommend,
    "neural": _neural,
    "coupled": _coupled,
    "perturb": _table,
}

"""What error to expect: a fit on synthetic data of the same public shape, in a process of its own.

It is given sizes that a person stated as public, and what the data set's form states as public. It is not given the path of the
data, so that nothing about the private rows can be in its result.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

    from tacit.data.schema import ColumnSpec


EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Losses at which the error is simulated, besides the one that was chosen."""
MOST_USERS, MOST_ITEMS, MOST_ROWS, MOST_COLUMNS = 5_000, 1_000, 20_000, 60
"""Larger data are simulated at this size, and the page says so: the error of a private fit falls as rows are added."""
MOST_CELLS = 2_000_000
"""Largest table that is simulated: a fit of it takes seconds."""
GROUPS, LISTED = 8, 20
"""Groups of items among which made-up users have tastes, and the length of the lists that are measured."""
COMPARED_COLUMNS = 12
"""The first columns, whose distributions the page compares."""
BINS = 20
"""Columns with more cells are compared in this many groups of neighbouring cells."""


def simulate(spec: dict[str, Any], say: Callable[[str], None] = lambda stage: None) -> dict[str, Any]:
    """Return the expected error by epsilon, with references, as plain values.

    Parameters
    ----------
    spec : dict
        question, epsilon, delta and the question's own settings; see `tacit.app.questions`.
    say : callable
        Called with the name of each stage.
    """
    epsilon = float(spec["epsilon"])
    # the chosen epsilon replaces any other that is nearly the same
    epsilons = sorted({epsilon, *(other for other in EPSILONS if abs(math.log(other / epsilon)) > 0.2)})
    results = {
        "recommender": _recommender,
        "synthetic": _table,
        "topics": _topics,
        "components": _components,
        "network": _network,
    }[spec["question"]](spec, epsilons, say)
    return {"epsilon": epsilon, **results}


def _recommender(spec: dict[str, Any], epsilons: list[float], say: Callable[[str], None]) -> dict[str, Any]:
    if "low" not in spec:
        return _clicks(spec, epsilons, say)
    import polars

    from tacit.data import make_ratings
    from tacit.report.recommender import compare_recommenders

    users, items = min(spec["users"], MOST_USERS), min(spec["items"], MOST_ITEMS)
    low, high = math.floor(spec["low"]), math.ceil(spec["high"])
    per_user = max(1, min(spec["per_user"], items // 2))
    say("making ratings of the stated size")
    made = make_ratings(users, items, ratings_per_user=per_user, rating_range=(low, high))
    frame = polars.DataFrame({"user": made.users, "item": made.items, "rating": made.ratings})
    say("fitting at several epsilons")
    others = [other for other in epsilons if other != float(spec["epsilon"])]
    comparison = compare_recommenders(
        frame,
        min(spec["factors"], items),
        epsilon=float(spec["epsilon"]),
        delta=spec["delta"],
        catalogue=range(items),
        rating_range=(low, high),
        other_epsilons=others,
    )
    return {
        "measure": "Error of a predicted rating (RMSE)",
        "errors": {f"{one:g}": comparison.curves[one] for one in epsilons},
        "references": {
            "without privacy": comparison.measures["without privacy"]["rmse"],
            "a user's own mean, which costs nothing": comparison.measures["a user's own mean"]["rmse"],
        },
        "made": f"{users:,} users and {items:,} items with about {per_user} ratings of each user",
        "smaller": users < spec["users"] or items < spec["items"],
    }


def _clicks(spec: dict[str, Any], epsilons: list[float], say: Callable[[str], None]) -> dict[str, Any]:
    import polars

    from tacit.report.implicit import compare_implicit

    users, items = min(spec["users"], MOST_USERS), min(spec["items"], MOST_ITEMS)
    per_user, listed = max(1, min(spec["per_user"], items // 2)), max(1, min(LISTED, items // 4))
    say("making histories of the stated size")
    rng = np.random.default_rng(0)
    # each user prefers some groups of items, and all prefer the popular ones; the largest of p with Gumbel noise are a sample
    tastes = np.log(rng.dirichlet(np.full(GROUPS, 0.3), size=users) + 1e-3)[:, rng.integers(GROUPS, size=items)]
    scores = tastes - np.log(1 + rng.permutation(items)) + rng.gumbel(size=(users, items))
    chosen = np.argpartition(-scores, per_user - 1, axis=1)[:, :per_user]
    frame = polars.DataFrame({"user": np.repeat(np.arange(users), per_user), "item": chosen.ravel()})
    errors, references = {}, {}
    for epsilon in epsilons:
        say(f"fitting at epsilon {epsilon:g}")
        measures = compare_implicit(
            frame, epsilon=epsilon, delta=spec["delta"], catalogue=range(items), k=listed
        ).measures
        errors[f"{epsilon:g}"] = 1 - measures["private"]["recall"]
        references = {name: 1 - scores["recall"] for name, scores in measures.items() if name != "private"}
    return {
        "measure": f"Fraction of what users chose that is not among the first {listed} items of their lists",
        "errors": errors,
        "references": references,
        "made": f"{users:,} users and {items:,} items with {per_user} items of each user",
        "smaller": users < spec["users"] or items < spec["items"],
    }


def _table(spec: dict[str, Any], epsilons: list[float], say: Callable[[str], None]) -> dict[str, Any]:
    import polars

    from tacit.data.schema import TableSchema
    from tacit.report.tables import synthesize_table

    schema = TableSchema.from_dict(spec["schema"])
    # columns beyond the limit are left out of the simulation: its time grows with the square of their number
    columns = dict(list(schema.columns.items())[:MOST_COLUMNS])
    label = spec.get("label") or None
    if label is not None:
        columns[label] = schema.columns[label]
    rows = min(spec["rows"], MOST_ROWS)
    say("making a table of the stated size")
    rng = np.random.default_rng(0)
    # one common cause makes all columns depend on each other; squares make their histograms uneven
    common = rng.random(rows)
    places = {name: (0.5 * common + 0.5 * rng.random(rows)) ** 2 for name in columns}
    frame = polars.DataFrame(
        {
            name: column.values((places[name] * column.n_cells).astype(np.intp), rng.random(rows))
            for name, column in columns.items()
        }
    )
    shown = list(columns)[:COMPARED_COLUMNS]
    pairs = list(itertools.pairwise(shown))
    truth = _histograms(frame, columns, shown, pairs)
    flat = [np.full_like(one, 1 / one.size) for one in truth]
    errors = {}
    for epsilon in epsilons:
        say(f"making a synthetic table at epsilon {epsilon:g}")
        made = synthesize_table(
            frame, TableSchema(columns), epsilon=epsilon, delta=spec["delta"], label=label, random_state=0
        )
        errors[f"{epsilon:g}"] = _distance(_histograms(made.table, columns, shown, pairs), truth)
    return {
        "measure": "Error of the counts of values and of pairs of values (total variation, 0 to 1)",
        "errors": errors,
        "references": {"a table of random cells": _distance(flat, truth)},
        "made": f"{rows:,} rows and {len(columns)} columns",
        "smaller": rows < spec["rows"] or len(columns) < len(schema.columns),
    }


def _histograms(
    frame: pl.DataFrame, columns: Mapping[str, ColumnSpec], shown: list[str], pairs: list[tuple[str, str]]
) -> list[NDArray[np.float64]]:
    sizes = {name: min(columns[name].n_cells, BINS) for name in shown}
    codes = {
        name: columns[name].cells(frame[name].to_numpy(), name) * sizes[name] // columns[name].n_cells for name in shown
    }
    single = [np.bincount(codes[name], minlength=sizes[name]) for name in shown]
    double = [np.bincount(codes[a] * sizes[b] + codes[b], minlength=sizes[a] * sizes[b]) for a, b in pairs]
    return [one / max(one.sum(), 1) for one in (*single, *double)]


def _distance(released: list[NDArray[np.float64]], truth: list[NDArray[np.float64]]) -> float:
    return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(released, truth, strict=True)]))


def _topics(spec: dict[str, Any], epsilons: list[float], say: Callable[[str], None]) -> dict[str, Any]:
    from tacit.factor.nmf.estimator import NMF
    from tacit.factor.nmf.private import PrivateNMF
    from tacit.measure import match_topics

    columns = min(spec["columns"], MOST_ITEMS)
    rows, rank = min(spec["rows"], MOST_ROWS, MOST_CELLS // columns), min(spec["rank"], columns)
    say("making rows of the stated size")
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(columns, 0.1), size=rank)
    X = rng.dirichlet(np.full(rank, 0.3), size=rows) @ parts
    X = np.maximum(X + rng.normal(scale=0.1 * X.mean(), size=X.shape), 0.0)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    say("fitting without privacy, to compare")
    plain = NMF(rank).fit(X)
    errors = {}
    for epsilon in epsilons:
        say(f"fitting at epsilon {epsilon:g}")
        model = PrivateNMF(rank, epsilon=epsilon, delta=spec["delta"]).fit(X)
        errors[f"{epsilon:g}"] = 1 - float(match_topics(parts, model.components_).mean_similarity)
    return {
        "measure": "How far the parts found are from the true ones (1 less the cosine)",
        "errors": errors,
        "references": {"without privacy": 1 - float(match_topics(parts, plain.components_).mean_similarity)},
        "made": f"{rows:,} rows and {columns} columns with {rank} parts",
        "smaller": rows < spec["rows"] or columns < spec["columns"],
    }


def _components(spec: dict[str, Any], epsilons: list[float], say: Callable[[str], None]) -> dict[str, Any]:
    from tacit.factor.svd.private import PrivateSVD

    columns = min(spec["columns"], MOST_ITEMS)
    rows, rank = min(spec["rows"], MOST_ROWS, MOST_CELLS // columns), min(spec["rank"], columns)
    say("making rows of the stated size")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, rank)) * 0.8 ** np.arange(rank) @ rng.normal(size=(rank, columns))
    X += rng.normal(scale=0.5, size=X.shape)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    best = np.linalg.svd(X, full_matrices=False)[2][:rank]
    errors = {}
    for epsilon in epsilons:
        say(f"fitting at epsilon {epsilon:g}")
        model = PrivateSVD(rank, epsilon=epsilon, delta=spec["delta"]).fit(X)
        errors[f"{epsilon:g}"] = _unexplained(X, model.components_)
    drawn = np.linalg.qr(rng.normal(size=(columns, rank)))[0].T
    return {
        "measure": "Fraction of the rows' squared length that the components do not explain",
        "errors": errors,
        "references": {"without privacy": _unexplained(X, best), "random directions": _unexplained(X, drawn)},
        "made": f"{rows:,} rows and {columns} columns with {rank} components",
        "smaller": rows < spec["rows"] or columns < spec["columns"],
    }


def _unexplained(X: NDArray[np.float64], components: NDArray[np.floating]) -> float:
    return 1 - float(np.sum((X @ components.T) ** 2) / np.sum(X**2))


def _network(spec: dict[str, Any], epsilons: list[float], say: Callable[[str], None]) -> dict[str, Any]:
    from tacit.report.network import compare_networks

    rows, columns, classes = min(spec["rows"], MOST_USERS), min(spec["columns"], MOST_COLUMNS), spec["classes"]
    say("making examples of the stated size")
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=rows)
    X = np.clip(rng.normal(size=(classes, columns))[y] + rng.normal(scale=1.5, size=(rows, columns)), -4, 4)
    errors, references = {}, {"guessing": 1 - 1 / classes}
    for epsilon in epsilons:
        say(f"training at epsilon {epsilon:g}")
        settings = {"hidden": tuple(spec["hidden"]), "epochs": spec["epochs"], "feature_range": (-4.0, 4.0)}
        comparison = compare_networks(X, y, classes=range(classes), epsilon=epsilon, delta=spec["delta"], **settings)
        errors[f"{epsilon:g}"] = 1 - comparison.measures["accuracy"]
        references["without privacy"] = 1 - comparison.measures["accuracy without privacy"]
    return {
        "measure": "Fraction of wrong classes",
        "errors": errors,
        "references": references,
        "made": f"{rows:,} examples with {columns} columns and {classes} classes",
        "smaller": rows < spec["rows"],
    }


def main() -> None:
    """Simulate what the first argument says, and print the result as JSON."""
    stages: list[str] = []
    noted = os.environ.get("TACIT_PROGRESS")

    def say(stage: str) -> None:
        stages.append(stage)
        if noted:
            with Path(noted).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"stage": stage, "done": len(stages) - 1, "of": len(EPSILONS) + 2}) + "\n")

    import warnings

    warnings.simplefilter("ignore")  # meant for fits of real data
    print(json.dumps(simulate(json.loads(sys.argv[1]), say)))


if __name__ == "__main__":
    main()

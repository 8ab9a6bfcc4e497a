"""Sections 6.1.2 and 6.2, Digg: which stories a user will digg or comment on.

Digg cannot be had. The tags of MovieLens 10M have the same relations: a user puts a tag on a movie (comments on a story), a user
tags a movie at all (diggs a story), and a movie has words in its title and genres (a story has keywords and topics).
"""

from __future__ import annotations

import time
import warnings
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tacit import CoupledFactorization, Relation
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.datasets.tensors import Tags
from tacit.reproduce.ermis.links import bayes_rows
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide

Cells = NDArray[np.int64]
COSTS = {"EUC": "euclid", "KL": "kl", "IS": "itakura-saito"}
TASKS = ("digg", "comment")
TABLE_6_3 = {
    ("EUC", "digg"): (0.855, 0.831, 0.817, 0.801),
    ("KL", "digg"): (0.921, 0.882, 0.853, 0.827),
    ("IS", "digg"): (0.939, 0.923, 0.895, 0.869),
    ("EUC", "comment"): (0.845, 0.831, 0.810, 0.780),
    ("KL", "comment"): (0.871, 0.845, 0.824, 0.810),
    ("IS", "comment"): (0.901, 0.885, 0.882, 0.859),
}
"""AUC: CP and Tucker at 40% hidden, CP and Tucker at 90%; page 90."""
TABLE_6_4 = {
    ("EUC", "digg"): (0.7154, 0.6615),
    ("KL", "digg"): (0.7414, 0.6865),
    ("IS", "digg"): (0.7858, 0.7479),
    ("EUC", "comment"): (0.3632, 0.3241),
    ("KL", "comment"): (0.3751, 0.3383),
    ("IS", "comment"): (0.4075, 0.3846),
}
"""P@10 at 40% and 90% hidden, page 91."""
TABLE_6_5 = {
    ("comment", "TF", "ML"): (0.848, 0.829, 0.813),
    ("comment", "TF", "VB"): (0.917, 0.897, 0.879),
    ("comment", "CTF", "ML"): (0.856, 0.837, 0.824),
    ("comment", "CTF", "VB"): (0.928, 0.913, 0.891),
    ("digg", "TF", "ML"): (0.864, 0.845, 0.829),
    ("digg", "TF", "VB"): (0.935, 0.917, 0.898),
    ("digg", "CTF", "ML"): (0.892, 0.870, 0.853),
    ("digg", "CTF", "VB"): (0.961, 0.947, 0.923),
}
"""AUC at 60%, 80% and 90% hidden, page 94."""
RANK = 5
"""The thesis does not state the rank for Digg."""
STANDS_IN = "Other data: Digg cannot be had."
TOP = 10
"""Of P@10, the measure of Table 6.4."""


def without_a_link(cells: Cells, shape: tuple[int, ...], draw: np.random.Generator) -> Cells:
    """Draw about as many cells without a link, with users, movies and tags as frequent as those of the links."""
    columns = [draw.permutation(column) for column in cells.T]
    drawn = np.unique(np.stack(columns, axis=1), axis=0)
    stored = np.ravel_multi_index(tuple(cells.T), shape)
    return np.asarray(drawn[~np.isin(np.ravel_multi_index(tuple(drawn.T), shape), stored)])


@cache
def _few(data: Tags, users: int) -> Tags:
    """Return the tags of the first users only, for a quick run."""
    kept = data.tags[data.tags[:, 0] < users]
    movies, places = np.unique(kept[:, 1], return_inverse=True)
    tags, tag_places = np.unique(kept[:, 2], return_inverse=True)
    topics = data.topics[np.isin(data.topics[:, 0], movies)]
    moved = np.column_stack([np.searchsorted(movies, topics[:, 0]), topics[:, 1:]])
    sizes = {**data.sizes, "user": users, "movie": len(movies), "tag": len(tags)}
    return Tags(np.column_stack([kept[:, 0], places, tag_places]), moved, sizes)


def _scores(
    run: ItemRun,
    task: str,
    model: str,
    divergence: str | float,
    missing: float,
    seed: int,
    *,
    coupled: bool = True,
    **fit: Any,
) -> tuple[float, float]:
    """Hide links and as many cells without one, fit the rest, and return AUC and P@10 of the hidden cells."""
    data: Tags = run.data["digg"]
    if run.quick:
        data = _few(data, 150)
    draw = np.random.default_rng(seed)
    order = ("user", "movie", "tag") if task == "comment" else ("user", "movie")
    links = data.tags if task == "comment" else data.votes
    shape = tuple(data.sizes[name] for name in order)
    zeros = without_a_link(links, shape, draw)
    cells, values = np.vstack([links, zeros]), np.r_[np.ones(len(links)), np.zeros(len(zeros))]
    hidden = draw.random(len(cells)) < missing
    tucker, side = model == "Tucker", {"divergence": divergence, "observed": "stored"}
    if task == "comment":
        einsum = "ir,js,kt,rst->ijk" if tucker else "ir,jr,kr->ijk"
        factors = (*order, *(["core"] if tucker else []))  # (6.8) and (6.10)
    else:
        einsum, factors = "ir,jr->ij", order  # (6.12) and (6.14)
    relations = [Relation((cells[~hidden], values[~hidden], shape), einsum, factors, name="links", **side)]
    if coupled:
        topic_shape = tuple(data.sizes[name] for name in ("movie", "word", "genre"))
        others = without_a_link(data.topics, topic_shape, draw)
        about = np.vstack([data.topics, others]), np.r_[np.ones(len(data.topics)), np.zeros(len(others))], topic_shape
        if task == "comment":
            text, names = (
                ("js,ws,gs->jwg", ("movie", "word", "genre"))
                if tucker
                else ("jr,wr,gr->jwg", ("movie", "word", "genre"))
            )
        elif tucker:
            text, names = "jr,wl,gm,rlm->jwg", ("movie", "word", "genre", "core")  # type: ignore[assignment]
        else:
            text, names = "jr,wr,gr->jwg", ("movie", "word", "genre")
        relations.append(Relation(about, text, names, name="topics", **side))
    settings: dict[str, Any] = {"max_iter": run.pick(40, 2), "random_state": seed, **fit}
    if settings.get("inference", "map") == "map":
        starts = {"n_init": 1, "dispersion": "given", "tol": 1e-6}
        settings = {"prior_shape": 1.1, "prior_scale": 1.0, **starts, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = CoupledFactorization(RANK, **settings).fit(relations)
    scores = fitted.predict("links", cells[hidden])
    return float(roc_auc_score(values[hidden], scores)), precision_at(cells[hidden, 0], scores, values[hidden])


def precision_at(users: Cells, scores: NDArray[np.float64], links: NDArray[np.float64]) -> float:
    """Return the mean fraction of links among a user's ten best hidden cells; users with fewer hidden links are left out."""
    precisions = []
    order = np.argsort(users, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(users[order])) + 1):
        if links[mine].sum() >= TOP and len(mine) > TOP:
            best = mine[np.argsort(-scores[mine], kind="stable")[:TOP]]
            precisions.append(links[best].mean())
    return float(np.mean(precisions)) if precisions else float("nan")


@item(
    paper="ermis",
    name="tables-6.3-6.4",
    title="Digg: AUC and P@10 of hidden diggs and comments, three costs",
    page=90,
    needs=("digg",),
    minutes=12,
    code=("tacit.CoupledFactorization",),
    covers=("table-6.3", "table-6.4"),
)
def tables_6_3_and_6_4(run: ItemRun) -> ItemOutcome:
    """Tables 6.3 and 6.4, pages 90 and 91: coupled models; P@10 of CP."""
    areas, precisions = [], []
    for (cost, task), printed in run.each(tuple(TABLE_6_3.items())):
        for place, (missing, model) in enumerate(((0.4, "CP"), (0.4, "Tucker"), (0.9, "CP"), (0.9, "Tucker"))):
            score = partial(_scores, run, task, model, COSTS[cost], missing)
            scores = [run.part(f"{cost}-{task}-{place}-{seed}", partial(score, seed)) for seed in run.seeds]
            label = (task, cost, f"{missing:.0%}")
            areas.append(Row((*label, model), printed[place], tuple(area for area, _ in scores), None, STANDS_IN, 3))
            if model == "CP":
                paper = TABLE_6_4[cost, task][place // 2]
                precisions.append(Row(label, paper, tuple(precision for _, precision in scores), None, STANDS_IN, 4))
    return ItemOutcome(
        (
            SideBySide("Table 6.3, AUC", ("task", "cost", "hidden", "model"), tuple(areas)),
            SideBySide("Table 6.4, P@10 (GCTF, CP)", ("task", "cost", "hidden"), tuple(precisions)),
        ),
        verdicts=("Cells without a link are drawn with users, movies and tags as frequent as those of the links.",),
    )


@item(
    paper="ermis",
    name="figure-6.5",
    title="Digg: AUC by the power p of the divergence",
    page=91,
    needs=("digg",),
    minutes=5,
    code=("tacit.CoupledFactorization",),
)
def figure_6_5(run: ItemRun) -> ItemOutcome:
    """Figure 6.5, page 91: coupled CP, 90% hidden, p = 0 (Euclid), 1 (KL), 2 (Itakura-Saito) and between."""
    powers = run.pick((0.0, 0.5, 1.0, 1.5, 2.0), (0.5, 2.0))
    curves = []
    for task in run.each(TASKS):
        areas = [[_scores(run, task, "CP", power, 0.9, seed)[0] for power in powers] for seed in run.seeds]
        curves.append(Curve.of(f"{task} prediction", powers, areas))
    return ItemOutcome(figures=(Figure("Figure 6.5, coupled CP, 90% hidden", "p", "AUC", tuple(curves)),))


@item(
    paper="ermis",
    name="table-6.5",
    title="Likelihood against variational Bayes: AUC and time",
    page=94,
    needs=("uclaf", "digg"),
    minutes=12,
    code=("tacit.CoupledFactorization",),
)
def table_6_5(run: ItemRun) -> ItemOutcome:
    """Table 6.5, page 94."""
    rows = bayes_rows(run)
    for (task, kind, algorithm), printed in run.each(tuple(TABLE_6_5.items())):
        for missing, paper in zip((0.6, 0.8, 0.9), printed, strict=True):
            fit: dict[str, Any] = (
                {"inference": "vb"} if algorithm == "VB" else {"prior_shape": None, "prior_scale": None}
            )
            began = time.perf_counter()
            areas = [
                _scores(run, task, "CP", "kl", missing, seed, coupled=kind == "CTF", **fit)[0] for seed in run.seeds
            ]
            each = (time.perf_counter() - began) / len(areas)
            label = (f"Digg, {task}", kind, algorithm, f"{missing:.0%}", "AUC")
            rows.append(Row(label, paper, tuple(areas), None, f"{STANDS_IN} {each:.1f} s a fit.", 3))
    return ItemOutcome((SideBySide("Table 6.5", ("data", "model", "inference", "hidden", "measure"), tuple(rows)),))

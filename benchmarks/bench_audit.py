"""Audits of every model: claimed epsilon against lower bounds, and what the algorithms of the papers leak.

``python benchmarks/bench_audit.py models`` writes docs/pictures/audit-*.png. ``--quick`` only shows that the parts run.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Part, main
from scipy.sparse import csr_array

import tacit
from tacit import (
    PrivateCoupledFactorization,
    PrivateImplicitRecommender,
    PrivateMoments,
    PrivateNMF,
    PrivatePCA,
    PrivatePCR,
    PrivateRatingNMF,
    PrivateRecommender,
    PrivateSVD,
    PrivateTable,
    Relation,
)
from tacit.audit import audit
from tacit.audit.canaries import candidate_pairs
from tacit.audit.membership import membership
from tacit.audit.one_run import one_run
from tacit.audit.presence import many_runs
from tacit.audit.subject import Subject
from tacit.audit.trajectory import World, measured_loss
from tacit.audit.units import RowUnits, units_of
from tacit.audit.white_box import white_box, worst_pair
from tacit.channel import Noisy, Outcome, Plan, Sum, run
from tacit.data import NumberColumn, make_documents, make_images, make_ratings

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
DELTA = 1e-6


def models(epsilon: float) -> dict[str, tuple[Any, Any]]:
    """Return every model with small data."""
    images = make_images(200, side=5, n_parts=1).images
    clicks = csr_array((make_documents(120, n_topics=2).counts[:, :30] > 0).astype(float))
    stars = make_ratings(80, 12, ratings_per_user=5, random_state=1)
    ratings, items = (stars.users, stars.items, stars.ratings), sorted(np.unique(stars.items).tolist())
    every = np.stack(np.unravel_index(np.arange(40 * 8), (40, 8)), axis=1)
    known = np.random.default_rng(1).random(len(every)) < 0.4
    values = np.random.default_rng(2).uniform(-1, 1, int(known.sum()))
    relation = [
        Relation(
            (every[known], values, (40, 8)), "ir,jr->ij", ("user", "place"), observed="stored", divergence="euclid"
        )
    ]
    # a network learns such labels by heart, so that a fit without noise shows its members
    random = np.random.default_rng(3)
    coins = random.random((60, 60)), random.integers(0, 2, 60)
    coupled = {"epsilon": epsilon, "value_range": (-1, 1)}
    network = {"epochs": 20, "sampling_rate": 0.5, "n_samples": 2, "classes": (0, 1)}
    return {
        "PrivateMoments": (PrivateMoments(epsilon=epsilon, row_norm=2.0), images),
        "PrivateNMF": (PrivateNMF(3, epsilon=epsilon, row_norm=2.0), images),
        "PrivateNMF, rounds": (PrivateNMF(3, epsilon=epsilon, row_norm=2.0, method="rounds", rounds=4), images),
        "PrivateSVD": (PrivateSVD(3, epsilon=epsilon, row_norm=2.0), images),
        "PrivatePCA": (PrivatePCA(3, epsilon=epsilon, feature_range=(0, 1)), images),
        "PrivatePCR": (PrivatePCR(3, epsilon=epsilon, row_norm=2.0, target_range=(0, 1)), (images, images[:, 0])),
        "PrivateRecommender": (PrivateRecommender(2, epsilon=epsilon, catalogue=items), ratings),
        "PrivateRatingNMF": (PrivateRatingNMF(2, epsilon=epsilon, catalogue=items), ratings),
        "PrivateImplicitRecommender": (PrivateImplicitRecommender(epsilon=epsilon), clicks),
        "PrivateTable": (PrivateTable(epsilon=epsilon, schema=NumberColumn(0, 1)), np.clip(images[:, :5], 0, 1)),
        "PrivateCoupled, cells": (PrivateCoupledFactorization({"r": 2}, unit="cell", **coupled), relation),
        "PrivateCoupled, users": (PrivateCoupledFactorization({"r": 2}, **coupled), relation),
        "PrivateBayesianClassifier": (
            tacit.PrivateBayesianClassifier((), epsilon=epsilon, **network),
            coins,
        ),
    }


def audited(name: str, model: Any, data: Any, quick: bool) -> dict[str, Any]:
    """Audit one model, and return its bounds by attack."""
    settings: dict[str, Any] = {"runs": 60, "seconds": 5.0} if quick else {"runs": 400, "seconds": 5.0}
    attacks = ("replay", "white box", "one run", "many runs", "membership")
    found = audit(model, data, attacks=attacks, bugs=not quick, **settings)
    bounds = {one.method: one for one in found.findings}
    member = bounds["membership"].figures
    return {
        "model": name,
        "claimed": found.epsilon,
        "violations": [one.violation for one in found.violations],
        "bounds": {method: one.epsilon for method, one in bounds.items() if one.epsilon is not None},
        "runs": bounds["white box"].figures.get("runs"),
        "area": member["area under the ROC curve"],
        "area without noise": member["area without noise"],
        "caught": f"{sum(bool(bug.by) for bug in found.bugs)} of {len(found.bugs)}",
        "seconds": found.seconds,
    }


def part_models(quick: bool = False) -> None:
    """Audit every model at epsilon 2, and draw its bounds."""
    for name, (model, data) in models(2.0).items():
        row = audited(name, model, data, quick)
        print(json.dumps(row), flush=True)
        if not quick:
            draw(row)


def draw(row: dict[str, Any]) -> None:
    """Draw the claim of one model against its lower bounds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 1.7))
    axis = figure.subplots()
    names = list(row["bounds"])[::-1]
    axis.barh(names, [row["bounds"][name] for name in names], color="#1f6f8b", height=0.6)
    axis.axvline(row["claimed"], color="#b5651d", linestyle="--")
    axis.set_xlim(0, row["claimed"] * 1.1)
    axis.set_xlabel("epsilon: bars, shown by attacks; line, claimed", fontsize=8)
    axis.set_title(row["model"], fontsize=9, loc="left")
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    PICTURES.mkdir(exist_ok=True)
    name = row["model"].lower().replace(", ", "-").replace(" ", "-")
    figure.savefig(PICTURES / f"audit-{name}.png", dpi=80, bbox_inches="tight")


def part_white_box(quick: bool = False, only: str = "") -> None:
    """White-box bounds of the full-batch models at two epsilons, as fractions of the claim.

    The second fraction takes all noise numbers as equally wide.
    """
    for epsilon in (1.0, 4.0):
        for name, (model, data) in models(epsilon).items():
            if "Bayesian" in name or only not in name:
                continue
            begun = time.process_time()
            settings: dict[str, Any] = {"runs": 60 if quick else 400, "seconds": math.inf}
            found = audit(model, data, attacks=("white box",), bugs=False, **settings)
            figures = found.findings[0].figures
            values = [figures[key] for key in ("mu, lower", "mu", "mu, claimed", "runs", "epsilon by rates")]
            exact = figures["epsilon if all noise is alike"] / epsilon
            took = time.process_time() - begun
            row = [epsilon, name, found.lower_bound / epsilon, exact, *values, took]
            print([round(one, 4) if isinstance(one, float) else one for one in row], flush=True)


def part_false_alarms(quick: bool = False, only: str = "") -> None:
    """How many of 200 audits of correct code contradict the claim at level 0.2: the white box with 8 runs, of every model."""
    audits = 5 if quick else 200
    for name, (model, data) in models(2.0).items():
        if only not in name:
            continue
        begun = time.process_time()
        subject = Subject.of(model, units_of(model, data))
        pair = worst_pair(subject, candidate_pairs(model, subject.data))
        found = [white_box(subject, pair, runs=8, level=0.2) for _ in range(audits)]
        alarms = [one.violation for one in found if one.violation]
        print(name, len(alarms), "of", audits, round(time.process_time() - begun), "s", flush=True)
        for alarm in alarms:
            print("   ", alarm, flush=True)


def part_false_alarms_of_releases(quick: bool = False) -> None:
    """The same for the attacks on what is released, of the models with the fastest fits."""
    audits, level = (2, 0.2) if quick else (200, 0.2)
    for name in ("PrivateMoments", "PrivateImplicitRecommender", "PrivateCoupled, cells", "PrivateCoupled, users"):
        model, data = models(2.0)[name]
        begun = time.process_time()
        subject = Subject.of(model, units_of(model, data))
        pair = worst_pair(subject, candidate_pairs(model, subject.data))
        counts = {"one run": 0, "many runs": 0, "membership": 0}
        for seed in range(audits):
            found = [
                one_run(subject, canaries=100, level=level, random_state=seed),
                many_runs(subject, pair, runs=32, level=level),
                membership(subject, fits=8, level=level, random_state=seed),
            ]
            for one in found:
                if one is not None:
                    counts[one.method] += bool(one.violation)
        print(name, counts, "of", audits, round(time.process_time() - begun), "s", flush=True)


def part_one_run(quick: bool = False) -> None:
    """One fit with many canaries at epsilon 10, seen through the final model."""
    random = np.random.default_rng(0)
    wide = random.normal(size=(100, 100 if quick else 320)) / 18
    clicks = csr_array((random.random((200, 40 if quick else 80)) < 0.05).astype(float))
    for model, data in ((PrivateMoments(epsilon=10.0), wide), (PrivateImplicitRecommender(epsilon=10.0), clicks)):
        for seed in range(1 if quick else 3):
            subject = Subject.of(model, units_of(model, data))
            found = one_run(subject, canaries=300 if quick else 2000, random_state=seed)
            assert found is not None
            print(type(model).__name__, {name: round(value, 3) for name, value in found.figures.items()}, flush=True)


def batch_clipped(X: Any, epsilon: float) -> Any:
    """Clip the mean of a batch as the thesis does: the noise is sized for the clipped mean, whatever one example adds."""

    def program() -> Any:
        weights = np.zeros(X.shape[1])
        for _ in range(4):
            mean = (X - weights).mean(axis=0)
            mean = mean * min(1.0, 1.0 / max(float(np.linalg.norm(mean)), 1e-12))
            # the thesis: the clipped mean has norm 1, so its sensitivity is taken to be 1/n
            total = yield Sum(gradient=mean, bound=1.0 / len(X), units=len(X))
            weights = weights + total.gradient
        return Outcome({"weights": weights})

    return run(program(), Noisy(Plan.for_budget(epsilon, DELTA, steps=4)))


def part_published(quick: bool = False) -> None:
    """What the algorithms of the papers leak, by attack; none of them has a guarantee."""
    runs = 80 if quick else 600
    images = make_images(60, side=4, n_parts=1).images
    stars = make_ratings(40, 8, ratings_per_user=4, random_state=1)
    ratings, items = (stars.users, stars.items, stars.ratings), sorted(np.unique(stars.items).tolist())
    published = {"epsilon": 1.0, "method": "published"}
    cases: list[tuple[str, Any, Any]] = [
        ("saha-imtiaz", PrivateNMF(2, rounds=3, **published), images),
        ("mugdho-imtiaz", PrivateRecommender(2, rounds=5, catalogue=items, unit="cell", **published), ratings),
    ]
    for name, model, data in cases:
        subject = Subject.of(model, units_of(model, data))
        for pair in candidate_pairs(model, subject.data)[:2]:
            found = many_runs(subject, pair, runs=runs, seconds=30.0)
            print(name, pair.name, round(found.epsilon or 0.0, 3), dict(found.figures), found.violation, flush=True)
    far = np.zeros((1, images.shape[1]))
    far[0, 0] = 1000.0
    data = RowUnits(images)
    losses = [
        measured_loss(
            lambda rows: batch_clipped(rows.X, 1.0),
            World(data.added((far, None)), True),
            World(data, False),
            unit_present=True,
        ).mu
        for _ in range(5)
    ]
    print("batch clipping: distance in deviations of the noise", np.round(losses, 2).tolist(), flush=True)


PARTS = {
    "models": Part(part_models, quick={"quick": True}),
    "white-box": Part(part_white_box, quick={"quick": True}),
    "false-alarms": Part(part_false_alarms, quick={"quick": True}),
    "false-alarms-of-releases": Part(part_false_alarms_of_releases, quick={"quick": True}),
    "one-run": Part(part_one_run, quick={"quick": True}),
    "published": Part(part_published, quick={"quick": True}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

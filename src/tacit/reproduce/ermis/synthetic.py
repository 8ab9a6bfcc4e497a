"""Section 7.2.1: synthetic normal matrices at several sites; compositions, privacy notions and parameters, by log-likelihood.

"AC" and "zCDP" are the thesis's noise (`method="published"`); "sound" is tacit's accounting. The unit is one cell.
Log-likelihoods are those of the first site's held-out cells with variance 1; the thesis sums over cells that it does not state.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tacit import PrivateCoupledFactorization, Relation
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide, same_order

RANK, DELTA, CLIP, RATE, EPOCHS = 5, 1e-3, 2.0, 0.02, 6
"""K, delta, G, the sampling ratio and E of section 7.2.1."""
RANGE = (-8.0, 8.0)
"""Bounds of the generated values. The thesis states none; wider ones need more noise, narrower ones clip values."""
TABLE_7_4 = {
    (1.0, 0.01): (-3.21, -5.12, -8.92, -11.8),
    (10.0, 0.01): (-3.25, -5.18, -9.05, -13.5),
    (0.1, 10.0): (-3.29, -5.23, -9.11, -13.2),
    (10.0, 10.0): (-3.24, -5.15, -8.97, -12.4),
}
"""Page 110, in 1e5: without noise, and at epsilon 10, 1 and 0.1, by a0 and b0."""
TABLE_7_5 = {
    ("NP", "", math.inf): (-3.37, -3.21, -3.06, -2.85),
    ("advanced", "site", 10.0): (-6.65, -5.62, -4.86, -4.02),
    ("advanced", "site", 1.0): (-11.50, -9.81, -8.73, -7.22),
    ("advanced", "site", 0.1): (-14.42, -12.38, -11.04, -9.60),
    ("advanced", "user", 10.0): (-7.98, -6.53, -5.74, -4.65),
    ("advanced", "user", 1.0): (-12.76, -10.88, -9.06, -7.90),
    ("advanced", "user", 0.1): (-15.31, -13.24, -11.87, -10.13),
    ("zcdp", "site", 10.0): (-5.37, -4.79, -4.31, -3.62),
    ("zcdp", "site", 1.0): (-9.06, -7.91, -7.18, -6.54),
    ("zcdp", "site", 0.1): (-12.05, -10.48, -9.14, -8.30),
    ("zcdp", "user", 10.0): (-6.13, -5.12, -4.59, -3.95),
    ("zcdp", "user", 1.0): (-10.32, -8.92, -8.04, -6.83),
    ("zcdp", "user", 0.1): (-13.25, -11.80, -10.26, -9.09),
}
"""Page 113, in 1e5, for N = 1, 2, 5 and 10."""
SITES = (1, 2, 5, 10)
"""The numbers of sites N in Table 7.5."""
OTHER_SCALE = "Other data and another sum: compare the order only."
Made = tuple[list[list[Relation]], np.ndarray, np.ndarray]


def make(run: ItemRun, seed: int, n_sites: int) -> Made:
    """Return the sites' relations, and the first site's held-out cells and values (section 4.2.1, precision 1)."""
    draw = np.random.default_rng(seed)
    rows, columns = run.pick((100, 50), (15, 10))
    shared = draw.normal(size=(columns, RANK))
    sites: list[list[Relation]] = []
    held = (np.empty((0, 2), int), np.empty(0))
    for place in range(n_sites):
        table = draw.normal(size=(rows, RANK)) @ shared.T / math.sqrt(RANK) * 2 + draw.normal(size=(rows, columns))
        mask = draw.random(table.shape) < 0.8
        cells = (np.argwhere(mask), table[mask], table.shape)
        relation = Relation(cells, "ir,jr->ij", ("user", "item"), observed="stored", divergence="euclid")
        sites.append([relation])
        if place == 0:
            held = (np.argwhere(~mask), table[~mask])
    return sites, *held


def score(
    made: Made,
    epsilon: float,
    *,
    protect: str = "user",
    composition: str = "zcdp",
    n_sites: int = 2,
    rank: int = RANK,
    rate: float = RATE,
    epochs: float = EPOCHS,
    clip: float = CLIP,
    delta: float = DELTA,
    hyper_prior: tuple[float, float] | None = None,
    seed: int = 0,
) -> float:
    """Return the mean log-likelihood of the held-out cells, with the thesis's noise, or sound noise for `composition` "sound"."""
    sites, cells, truth = made
    published = composition != "sound" and not math.isinf(epsilon)
    model = PrivateCoupledFactorization(
        rank,
        epsilon=epsilon,
        delta=delta,
        unit="cell",
        protect=protect,
        method="published" if published else "sgld",
        composition=composition if published else "zcdp",
        value_range=RANGE,
        rounds=max(round(epochs / rate), 1),
        sampling_rate=rate,
        clip=clip,
        hyper_prior=hyper_prior,
        value_variance=(2 / (RANGE[1] - RANGE[0])) ** 2,  # the values have variance 1 around their means
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = model.fit_sites(sites[:n_sites])[0].predict(sites[0][0].name, cells)
    return float(np.mean(-0.5 * (truth - predicted) ** 2 - 0.5 * math.log(2 * math.pi)))


def _epochs(run: ItemRun) -> float:
    return run.pick(float(EPOCHS), 0.2)


@item(
    paper="ermis",
    name="figure-7.8",
    title="Synthetic matrices: batch, epochs, rank, clipping norm, delta",
    page=108,
    minutes=6,
    code=("tacit.PrivateCoupledFactorization",),
)
def figure_7_8(run: ItemRun) -> ItemOutcome:
    """Figure 7.8, page 108: one parameter at a time, epsilon 1, user-level."""
    few = 2 if run.quick else None
    panels: dict[str, tuple[tuple[float, ...], str]] = {
        "(a) sampling ratio": ((0.01, 0.02, 0.05, 0.1), "rate"),
        "(b) epochs": ((1.0, 3.0, 6.0, 12.0), "epochs"),
        "(c) latent factors": ((2, 5, 10, 20), "rank"),
        "(d) clipping norm G": ((1.0, 2.0, 4.0, 6.0), "clip"),
        "(e) delta": ((1e-5, 1e-4, 1e-3, 1e-2), "delta"),
    }
    figures = []
    for caption, (values, name) in run.each(tuple(panels.items())):
        curves = []
        for composition in ("zcdp", "sound"):
            errors = []
            for seed in run.seeds:
                made = make(run, seed, 2)
                line = []
                for value in values[:few]:
                    settings: dict[str, Any] = {"epochs": _epochs(run), name: value}
                    if run.quick:
                        settings["epochs"] = 0.2
                    line.append(score(made, 1.0, composition=composition, seed=seed, **settings))
                errors.append(line)
            curves.append(
                Curve.of("zCDP (thesis)" if composition == "zcdp" else "sound accounting", values[:few], errors)
            )
        figures.append(
            Figure(
                f"Figure 7.8 {caption}",
                caption[4:],
                "log-likelihood of a held-out cell",
                tuple(curves),
                log_x=name in ("rate", "delta"),
            )
        )
    return ItemOutcome(figures=tuple(figures))


@item(
    paper="ermis",
    name="table-7.4",
    title="Synthetic matrices: hyperparameters of the precision",
    page=110,
    minutes=3,
    code=("tacit.PrivateCoupledFactorization",),
)
def table_7_4(run: ItemRun) -> ItemOutcome:
    """Table 7.4, page 110: the Gamma prior (a0, b0) of the precisions of the factors' components."""
    made = [make(run, seed, 2) for seed in run.seeds]
    epsilons = (math.inf, 10.0, 1.0, 0.1)
    cases = tuple((prior, epsilon) for prior in TABLE_7_4 for epsilon in epsilons)
    ours = {
        (prior, epsilon): tuple(
            score(one, epsilon, composition="sound", epochs=_epochs(run), hyper_prior=prior) for one in made
        )
        for prior, epsilon in run.each(cases)
    }
    rows = [
        Row(
            (f"a0 = {a0:g}, b0 = {b0:g}", "NP" if math.isinf(epsilon) else f"{epsilon:g}"),
            paper,
            ours[(a0, b0), epsilon],
            None,
            OTHER_SCALE,
            3,
        )
        for (a0, b0), printed in TABLE_7_4.items()
        for epsilon, paper in zip(epsilons, printed, strict=True)
    ]
    caption = "Table 7.4: log-likelihood; the paper's in 1e5, ours the mean of a held-out cell"
    table = SideBySide(caption, ("hyperparameters", "epsilon"), tuple(rows))
    return ItemOutcome((table,), verdicts=same_order(rows))


@item(
    paper="ermis",
    name="table-7.5",
    title="Synthetic matrices: privacy notions by the number of sites",
    page=113,
    minutes=6,
    code=("tacit.PrivateCoupledFactorization",),
    covers=("table-7.5", "figure-7.9", "figure-7.10"),
)
def table_7_5(run: ItemRun) -> ItemOutcome:
    """Table 7.5 and Figures 7.9 and 7.10, pages 111 to 113."""
    numbers = run.pick(SITES, (1, 2))
    rows, lines = [], {}
    made = [make(run, seed, max(numbers)) for seed in run.seeds]
    keys = [*TABLE_7_5, *(("sound", protect, epsilon) for protect in ("site", "user") for epsilon in (10.0, 1.0, 0.1))]
    for key in run.each(run.pick(keys, keys[:: len(keys) // 3])):
        composition, protect, epsilon = key
        errors = []
        for place, n_sites in enumerate(numbers):
            settings: dict[str, Any] = {"n_sites": n_sites, "epochs": _epochs(run)}
            if composition != "NP":
                settings |= {"composition": composition, "protect": protect}
            ours = tuple(score(one, epsilon, **settings) for one in made)
            paper = TABLE_7_5[key][place] if key in TABLE_7_5 else None
            shown = {"NP": "no noise", "advanced": "CTF-AC", "zcdp": "CTF-zCDP", "sound": "sound accounting"}[
                composition
            ]
            label = (
                f"{shown} ({protect}-level)" if protect else shown,
                "NP" if math.isinf(epsilon) else f"{epsilon:g}",
                str(n_sites),
            )
            rows.append(Row(label, paper, ours, None, OTHER_SCALE if paper is not None else "Not in the thesis.", 3))
            errors.append(ours)
        lines[key] = Curve.of(f"{shown} {protect}".strip(), numbers, np.transpose(errors))
    caption = "Table 7.5: log-likelihood; the paper's in 1e5, ours the mean of a held-out cell"
    at_one = tuple(curve for (_, _, epsilon), curve in lines.items() if epsilon == 1.0 or math.isinf(epsilon))
    by_budget = tuple(
        Curve(f"{curve.label}, epsilon {epsilon:g}", curve.x, curve.y, curve.spread)
        for (composition, protect, epsilon), curve in lines.items()
        if (composition, protect) == ("zcdp", "user") or composition == "NP"
    )
    y = "log-likelihood of a held-out cell"
    figures = [Figure("Figures 7.9a and 7.10: privacy notions, epsilon 1", "sites N", y, at_one)]
    if by_budget:
        figures.append(Figure("Figure 7.9b: CTF-zCDP (user-level) by epsilon", "sites N", y, by_budget))
    table = SideBySide(caption, ("method", "epsilon", "N"), tuple(rows))
    return ItemOutcome((table,), tuple(figures), verdicts=same_order(rows))

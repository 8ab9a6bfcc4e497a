"""Section 7.1.1: synthetic counts at several sites; central (CDP) and local (LDP1, LDP2) privacy compared by log-likelihood.

CDP is Algorithm 1 repaired: `PrivateCoupledFactorization(method="sgld")` with KL and the unit of one cell. LDP1 and LDP2 are
`LocalCountFactorization` of noisy tables, without and with the first site's own table. The thesis sums log-likelihoods of data
that it does not publish, so only the order of the methods can be compared.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tacit import LocalCountFactorization, LocallyPrivateCounts, PrivateCoupledFactorization, Relation
from tacit.errors import Undisclosed
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide, same_order

RANK, MEAN, DELTA, RATE = 5, 5.0, 1e-3, 0.2
"""D and delta of section 7.1. The thesis does not state the mean of its counts; it has minibatches of one count, for which RATE,
the sampling rate of a step, was set by hand."""
SHAPE, SCALE = 0.1, 0.01
"""The thesis's choice of the Gamma hyperparameters alpha and beta, section 7.1.1."""
TABLE_7_1 = {
    (0.1, 0.01): (-5.12, -3.21, -0.540, -23.0, -13.3, -0.540),
    (10.0, 0.01): (-5.18, -3.25, -0.545, -23.7, -13.8, -0.545),
    (0.1, 10.0): (-5.23, -3.29, -0.548, -23.9, -14.0, -0.548),
    (10.0, 10.0): (-5.15, -3.24, -0.541, -23.5, -13.6, -0.541),
}
"""Page 99, in 1e5: CDP (site) at epsilon 0.05, 0.1 and without noise, then LDP1. The page prints the exponents with a minus."""
METHODS = ("CDP", "LDP1", "LDP2")


@dataclass(frozen=True, eq=False, repr=False)
class CountSites(Undisclosed):
    """Tables of counts with common columns, and which cells are known; the others are held out."""

    tables: tuple[NDArray[np.int64], ...]
    seen: tuple[NDArray[np.bool_], ...]


def make(seed: int, rows: tuple[int, ...], columns: int) -> CountSites:
    """Draw Poisson counts with Gamma factors, (4.1) to (4.3), of mean 5; a fifth of the cells is held out."""
    draw = np.random.default_rng(seed)
    shared = draw.gamma(SHAPE, 1 / SHAPE, (columns, RANK))
    tables = [draw.poisson(draw.gamma(SHAPE, MEAN / RANK / SHAPE, (size, RANK)) @ shared.T) for size in rows]
    return CountSites(tuple(tables), tuple(draw.random(table.shape) < 0.8 for table in tables))


def poisson_score(rates: NDArray[np.float64], sites: CountSites) -> float:
    """Return the mean log-likelihood of the first site's held-out counts."""
    held = ~sites.seen[0]
    x, rate = sites.tables[0][held], np.maximum(rates, 1e-3)
    return float(np.mean(x * np.log(rate) - rate - gammaln(x + 1)))


def central(sites: CountSites, epsilon: float, passes: int, *, protect: str = "site", seed: int = 0) -> float:
    """Return the score of the repaired Algorithm 1, with a fifth of the cells in each of 5 steps per pass."""
    most = 50.0
    given = []
    for table, mask in zip(sites.tables, sites.seen, strict=True):
        cells = np.argwhere(mask)
        known = {"observed": "stored", "divergence": "kl"}
        given.append(
            [Relation((cells, table[mask].astype(float), table.shape), "ir,jr->ij", ("user", "item"), **known)]
        )
    model = PrivateCoupledFactorization(
        RANK,
        epsilon=epsilon,
        delta=DELTA,
        unit="cell",
        protect=protect,
        method="sgld",
        value_range=(0, most),
        rounds=max(round(passes / RATE), 1),
        sampling_rate=RATE,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit_sites(given)[0]
        return poisson_score(fitted.predict(given[0][0].name, np.argwhere(~sites.seen[0])), sites)


def local(
    sites: CountSites,
    epsilon: float,
    passes: int,
    *,
    own: bool,
    shape: float = SHAPE,
    rate: float | None = None,
    seed: int = 0,
) -> float:
    """Return the score of LDP1, or with the first site's `own` table of LDP2, after a number of sweeps."""
    tables: list[object] = list(sites.tables)
    if not math.isinf(epsilon):
        tables = [
            LocallyPrivateCounts(epsilon).privatise(table, observed=mask)
            for table, mask in zip(sites.tables, sites.seen, strict=True)
        ]
    if own:
        tables[0] = sites.tables[0]
    sweeps = max(passes, 2)
    model = LocalCountFactorization(
        RANK, sweeps=sweeps, burn_in=sweeps // 2, n_samples=20, prior_shape=shape, prior_rate=rate, random_state=seed
    )
    return float(model.fit(tables, observed=sites.seen).score(sites.tables[0], observed=~sites.seen[0]))


def score(method: str, sites: CountSites, epsilon: float, passes: int, seed: int) -> float:
    """Return the score of CDP (site), LDP1 or LDP2."""
    if method == "CDP":
        return central(sites, epsilon, passes, seed=seed)
    return local(sites, epsilon, passes, own=method == "LDP2", seed=seed)


def _two(run: ItemRun, seed: int) -> CountSites:
    return make(seed, run.pick((150, 100), (20, 15)), run.pick(50, 12))


@item(
    paper="ermis",
    name="figure-7.1",
    title="Synthetic counts: site-level and user-level privacy",
    page=98,
    minutes=2,
    code=("tacit.PrivateCoupledFactorization",),
)
def figure_7_1(run: ItemRun) -> ItemOutcome:
    """Figure 7.1, page 98: log-likelihood by data passes, at three epsilons."""
    passes = run.pick((10, 25, 50, 100, 150), (2,))
    figures = []
    for epsilon in run.each(run.pick((1.0, 0.1, 0.05), (1.0,))):
        curves = []
        for protect in ("site", "user"):
            scores = [
                [central(_two(run, seed), epsilon, n, protect=protect, seed=seed) for n in passes] for seed in run.seeds
            ]
            curves.append(Curve.of(f"CDP ({protect})", passes, scores))
        figures.append(
            Figure(
                f"Figure 7.1, epsilon {epsilon:g}", "data passes", "log-likelihood of a held-out cell", tuple(curves)
            )
        )
    return ItemOutcome(figures=tuple(figures))


@item(
    paper="ermis",
    name="figure-7.2",
    title="Synthetic counts: log-likelihood by the number of passes",
    page=99,
    minutes=2,
    code=("tacit.PrivateCoupledFactorization", "tacit.LocalCountFactorization"),
)
def figure_7_2(run: ItemRun) -> ItemOutcome:
    """Figure 7.2, page 99: epsilon 0.1. CDP divides one budget among its passes; LDP adds its noise once."""
    passes = run.pick((10, 50, 100, 200, 400), (2, 4))
    curves = []
    for method in run.each(METHODS):
        scores = [[score(method, _two(run, seed), 0.1, n, seed) for n in passes] for seed in run.seeds]
        curves.append(Curve.of(method, passes, scores))
    return ItemOutcome(
        figures=(Figure("Figure 7.2, epsilon 0.1", "data passes", "log-likelihood of a held-out cell", tuple(curves)),)
    )


@item(
    paper="ermis",
    name="figure-7.3",
    title="Synthetic counts: CDP, LDP1 and LDP2 by epsilon",
    page=100,
    minutes=2,
    code=("tacit.PrivateCoupledFactorization", "tacit.LocalCountFactorization"),
)
def figure_7_3(run: ItemRun) -> ItemOutcome:
    """Figure 7.3, page 100."""
    epsilons = run.pick((0.05, 0.1, 1.0, math.inf), (1.0, math.inf))
    curves = []
    for method in run.each(METHODS):
        scores = [
            [score(method, _two(run, seed), epsilon, run.pick(120, 3), seed) for epsilon in epsilons]
            for seed in run.seeds
        ]
        curves.append(Curve.of(method, range(len(epsilons)), scores))
    ticks = tuple("NP" if math.isinf(epsilon) else f"{epsilon:g}" for epsilon in epsilons)
    figure = Figure("Figure 7.3", "epsilon", "log-likelihood of a held-out cell", tuple(curves), ticks=ticks)
    return ItemOutcome(figures=(figure,))


@item(
    paper="ermis",
    name="figure-7.4",
    title="Synthetic counts: more sites",
    page=101,
    minutes=3,
    code=("tacit.PrivateCoupledFactorization", "tacit.LocalCountFactorization"),
)
def figure_7_4(run: ItemRun) -> ItemOutcome:
    """Figure 7.4, page 101: sites of 100 x 50 counts, epsilon 0.1."""
    numbers = run.pick((2, 4, 6, 8, 10), (2, 3))
    size = run.pick(100, 15)
    curves = []
    for method in run.each(METHODS):
        scores = []
        for seed in run.seeds:
            sites = make(seed, (size,) * max(numbers), run.pick(50, 12))
            parts = [CountSites(sites.tables[:n], sites.seen[:n]) for n in numbers]
            scores.append([score(method, part, 0.1, run.pick(120, 3), seed) for part in parts])
        curves.append(Curve.of(method, numbers, scores))
    return ItemOutcome(
        figures=(Figure("Figure 7.4, epsilon 0.1", "sites N", "log-likelihood of a held-out cell", tuple(curves)),)
    )


@item(
    paper="ermis",
    name="table-7.1",
    title="Synthetic counts: hyperparameters of the Gamma priors",
    page=99,
    minutes=3,
    code=("tacit.PrivateCoupledFactorization", "tacit.LocalCountFactorization"),
)
def table_7_1(run: ItemRun) -> ItemOutcome:
    """Table 7.1, page 99. tacit's gradients have no Gamma prior: CDP is the same in all rows."""
    passes, rows = run.pick(120, 3), []
    made = [_two(run, seed) for seed in run.seeds]
    epsilons = (0.05, 0.1, math.inf)
    cdp = {epsilon: tuple(central(sites, epsilon, passes) for sites in made) for epsilon in epsilons}
    for (shape, rate), printed in run.each(tuple(TABLE_7_1.items())):
        for place, epsilon in enumerate(epsilons):
            label = (f"alpha = {shape:g}, beta = {rate:g}", "NP" if math.isinf(epsilon) else f"{epsilon:g}")
            ldp = tuple(local(sites, epsilon, passes, own=False, shape=shape, rate=rate) for sites in made)
            for method, values, paper in (
                ("CDP (site)", cdp[epsilon], printed[place]),
                ("LDP1", ldp, printed[3 + place]),
            ):
                remark = (
                    "No Gamma prior in tacit's gradients."
                    if method == "CDP (site)"
                    else "Prior of U with this shape and rate."
                )
                rows.append(Row((label[0], method, label[1]), paper, values, None, remark, 3))
    caption = "Table 7.1: log-likelihood; the paper's in 1e5, of cells that it does not state; ours, the mean of a held-out cell"
    table = SideBySide(caption, ("hyperparameters", "method", "epsilon"), tuple(rows))
    return ItemOutcome((table,), verdicts=same_order(rows))

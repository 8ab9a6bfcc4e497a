"""Private coupled factorisation compared with Ermis (2020): MovieLens 1M and UCLAF over sites; locally private counts.

    movielens    MovieLens 1M, Table 7.7
    uclaf        Table 7.8
    layouts      three sites: users, films or single cells divided among them (Fig. 4.1)
    sgld         noisy gradients compared with noisy moments
    accounting   the epsilon that the thesis's noise really gives
    local        section 7.1.1

The set-up is the thesis's: each site has a tenth of the users, N sites fit jointly, and the error is measured on the
held-out fifth of the first site's cells. delta = 1e-4 for the whole fit. The thesis's unit is one cell at both of its
levels; its figures are its best over many settings, its accounting is not sound (see `accounting`), and its splits are
not published.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl
from harness import Part, Quoted, main
from numpy.typing import NDArray
from real_data import data_folder

from tacit import LocalCountFactorization, LocallyPrivateCounts, PrivateCoupledFactorization, Relation
from tacit.privacy.calibration import gaussian_noise_multiplier
from tacit.privacy.published import compare_published

SITES, EPSILONS, DELTA = (1, 2, 5, 10), (10.0, 1.0, 0.1), 1e-4
KNOWN = {"observed": "stored", "divergence": "euclid"}
MOVIELENS = Quoted(
    "Table 7.7 of Ermis (2020), CTF-zCDP, site-level and user-level, N = 1, 2, 5, 10; no noise: its case NP",
    {
        ("site", 10.0): (1.01, 0.92, 0.83, 0.77),
        ("site", 1.0): (1.30, 1.18, 1.07, 0.98),
        ("site", 0.1): (1.72, 1.59, 1.46, 1.37),
        ("user", 10.0): (1.05, 0.96, 0.87, 0.81),
        ("user", 1.0): (1.39, 1.27, 1.15, 1.08),
        ("user", 0.1): (1.87, 1.72, 1.57, 1.49),
        ("none", math.inf): (0.96, 0.89, 0.81, 0.74),
    },
)
UCLAF = Quoted(
    "Table 7.8 of Ermis (2020), CTF-zCDP (user-level), N = 1, 2, 5, 10",
    {
        ("Model-1", 10.0): (0.89, 0.77, 0.66, 0.57),
        ("Model-2", 10.0): (0.89, 0.72, 0.60, 0.51),
        ("Model-3", 10.0): (0.80, 0.64, 0.53, 0.46),
        ("Model-1", 1.0): (1.04, 0.94, 0.84, 0.75),
        ("Model-2", 1.0): (1.04, 0.89, 0.81, 0.73),
        ("Model-3", 1.0): (0.97, 0.83, 0.76, 0.70),
        ("Model-1", 0.1): (1.83, 1.66, 1.52, 1.40),
        ("Model-2", 0.1): (1.83, 1.74, 1.68, 1.64),
        ("Model-3", 0.1): (1.64, 1.60, 1.57, 1.57),
    },
)
Cells = NDArray[np.int64]
Split = tuple[list[list[Relation]], Cells, NDArray[np.float64], float]


def rmse(predicted: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def movielens(seed: int) -> Split:
    """Return ten sites' relations, the first site's held-out cells and ratings, and the mean of all sites' other ratings."""
    table = pl.read_parquet(data_folder() / "movielens1m" / "ratings.parquet")
    users, films = (np.unique(table[name].to_numpy(), return_inverse=True)[1] for name in ("user", "item"))
    ratings = table["rating"].to_numpy().astype(np.float64)
    draw = np.random.default_rng(seed)
    users = draw.permutation(users.max() + 1)[users]
    held = draw.random(len(ratings)) < 0.2
    cells, shape = np.stack([users, films], axis=1), (users.max() + 1, films.max() + 1)
    return in_sites(cells, ratings, held, shape, "ir,jr->ij", ("user", "film"))


def uclaf(seed: int) -> Split:
    """Return the same for UCLAF: the non-zero cells, as ones, and as many zeros drawn at random."""
    tensor = np.load(data_folder() / "tensors" / "uclaf.npz")["UserLocAct"] > 0
    draw = np.random.default_rng(seed)
    ones, zeros = np.argwhere(tensor), np.argwhere(~tensor)
    cells = np.concatenate([ones, zeros[draw.choice(len(zeros), len(ones), replace=False)]])
    values = np.r_[np.ones(len(ones)), np.zeros(len(ones))]
    cells[:, 0] = draw.permutation(tensor.shape[0])[cells[:, 0]]
    held = draw.random(len(values)) < 0.2
    return in_sites(cells, values, held, tensor.shape, "ir,jr,kr->ijk", ("user", "place", "activity"))


def in_sites(
    cells: Cells,
    values: NDArray[np.float64],
    held: NDArray[np.bool_],
    shape: Sequence[int],
    einsum: str,
    factors: tuple[str, ...],
) -> Split:
    ends = [site * shape[0] // 10 for site in range(11)]
    sites = []
    for first, last in itertools.pairwise(ends):
        mine = (cells[:, 0] >= first) & (cells[:, 0] < last) & ~held
        local = np.column_stack([cells[mine, 0] - first, cells[mine, 1:]])
        sites.append([Relation((local, values[mine], (last - first, *shape[1:])), einsum, factors, **KNOWN)])
    scored = held & (cells[:, 0] < ends[1])
    return sites, cells[scored], values[scored], float(values[~held].mean())


def one_fit(model: PrivateCoupledFactorization, data: Split, n_sites: int) -> float:
    sites, cells, truth, _ = data
    fitted = model.fit_sites(sites[:n_sites])[0]
    return rmse(fitted.predict(sites[0][0].name, cells), truth)


def private_constant(model: PrivateCoupledFactorization, data: Split, n_sites: int) -> float:
    """Return the error of predicting the mean, released with a model's whole budget, averaged over many noise draws."""
    sites, _, truth, _ = data
    (least, greatest), by_cell = model.value_range, model.unit == "cell"
    half, middle = (greatest - least) / 2, (greatest + least) / 2
    count = total = 0.0
    for (relation,) in sites[:n_sites]:
        cells, values = relation.known_cells()
        values = (values - middle) / half
        each = np.ones(len(values)) if by_cell else 1 / np.bincount(cells[:, 0])[cells[:, 0]]
        count, total = count + each.sum(), total + (each * values).sum()
    scale = gaussian_noise_multiplier(model.epsilon, model.delta) * math.sqrt(2)
    noise = scale * np.random.default_rng(0).standard_normal((2, 1000))
    means = np.clip((total + noise[1]) / np.maximum(count + noise[0], 1.0), -1, 1)
    own, spread = float(truth.mean()), float(truth.var())
    return float(np.mean(np.sqrt(spread + (middle + half * means - own) ** 2)))


def shown(errors: Callable[[int], list[float]], quoted: Sequence[float] | None, sites: Sequence[int]) -> str:
    means = [float(np.mean(errors(n_sites))) for n_sites in sites]
    ours = "  ".join(f"{value:6.3f}" for value in means)
    return ours + "   thesis* " + "  ".join(f"{value:.2f}" for value in quoted) if quoted else ours


def films(
    repeats: int = 3,
    method: str = "moments",
    draws: int = 1,
    epsilons: Sequence[float] = EPSILONS,
    sites: Sequence[int] = SITES,
) -> None:
    """Fit `draws` times on each of `repeats` splits, each time with new noise."""
    splits = [movielens(seed) for seed in range(repeats)]
    constant = np.mean([rmse(np.full(len(truth), mean), truth) for _, _, truth, mean in splits])
    print(f"MovieLens 1M, RMSE at the first of N = {sites} sites, {method}; the constant predictor has {constant:.3f}")
    for unit in ("cell", "user"):
        for protect in ("site", "user"):
            for epsilon in epsilons:
                model = PrivateCoupledFactorization(
                    5, epsilon=epsilon, delta=DELTA, unit=unit, protect=protect, value_range=(1, 5), method=method
                )
                quoted = MOVIELENS[protect, epsilon] if unit == "cell" else None
                line = shown(
                    lambda n, model=model: [one_fit(model, split, n) for split in splits * draws], quoted, sites
                )
                print(f"unit {unit:<6} protect {protect:<5} epsilon {epsilon:>4g}   {line}", flush=True)
                plain = shown(lambda n, model=model: [private_constant(model, s, n) for s in splits], None, sites)
                print(f"{'':<22} constant, as private   {plain}", flush=True)
    first = splits[0][0]
    clear = PrivateCoupledFactorization(5, epsilon=np.inf, value_range=(1, 5))
    line = shown(lambda n: [one_fit(clear, splits[0], n)], MOVIELENS["none", math.inf], sites)
    print(f"no noise{'':<31}   {line}   ({len(first)} sites of {first[0][0].shape[0]} users)")


def places(
    repeats: int = 3,
    draws: int = 1,
    epsilons: Sequence[float] = (np.inf, *EPSILONS),
    sites: Sequence[int] = SITES,
) -> None:
    splits = [uclaf(seed) for seed in range(repeats)]
    features = np.load(data_folder() / "tensors" / "uclaf.npz")["LocFea"].astype(np.float64)
    public = Relation(features, "jr,fr->jf", ("place", "feature"), divergence="euclid")
    constant = np.mean([rmse(np.full(len(truth), mean), truth) for _, _, truth, mean in splits])
    print(f"UCLAF, RMSE at the first of N = {sites} sites; the constant predictor has {constant:.3f}")
    models = {"Model-1": (["place"], False), "Model-2": (["place", "activity"], False), "Model-3": (None, True)}
    for unit in ("cell", "user"):
        for protect in ("site", "user"):
            for epsilon in epsilons:
                for name, (shared, has_public) in models.items():
                    model = PrivateCoupledFactorization(
                        3, epsilon=epsilon, delta=DELTA, unit=unit, protect=protect, shared=shared, value_range=(0, 1)
                    )
                    given = [
                        ([[*site, public] for site in each] if has_public else each, *rest) for each, *rest in splits
                    ]
                    quoted = UCLAF.get((name, epsilon)) if (unit, protect) == ("cell", "user") else None
                    line = shown(
                        lambda n, model=model, given=given: [one_fit(model, one, n) for one in given * draws],
                        quoted,
                        sites,
                    )
                    print(f"unit {unit:<6} protect {protect:<5} epsilon {epsilon:>4g} {name}   {line}", flush=True)


def accounting(epsilons: Sequence[float] = EPSILONS) -> None:
    """Show the epsilon of the thesis's noise at its settings: 120 passes over MovieLens, 80 of 80,000 cells per step."""
    for name, steps, rate in (("MovieLens 1M, one site", 120_000, 0.001), ("UCLAF, one site", 18_000, 1 / 60)):
        print(f"{name}: {steps:,} steps at rate {rate:.4f}, delta {DELTA:g}")
        for epsilon in epsilons:
            rows = compare_published(epsilon, DELTA, steps=steps, sampling_rate=rate)
            told = {
                row.method: row for row in rows if row.method in ("sound", "Ermis App. E, AC", "Ermis App. E, zCDP")
            }
            text = "; ".join(
                f"{m}: noise {r.noise_multiplier:.3g}, costs {r.real_epsilon:.3g}" for m, r in told.items()
            )
            print(f"  epsilon {epsilon:g}: {text}", flush=True)


def counts(repeats: int = 3, sweeps: int = 600, shape: float = 0.1, epsilons: Sequence[float] = (1.0, 0.1)) -> None:
    """Sites of 100 x 50 Poisson counts of rank 5, a fifth held out; mean log-likelihood of the first site's held-out counts."""
    print(f"local privacy, Gamma factors of shape {shape:g}, {repeats} data sets, N sites: LDP1, naive, LDP2, naive")
    for epsilon in epsilons:
        for n_sites in SITES:
            scores = [_local(seed, epsilon, n_sites, sweeps, shape) for seed in range(repeats)]
            line = "  ".join(f"{value:8.3f}" for value in np.mean(scores, axis=0))
            print(f"epsilon {epsilon:>4g}  N {n_sites:>2}   {line}", flush=True)


def _local(seed: int, epsilon: float, n_sites: int, sweeps: int, shape: float) -> list[float]:
    draw = np.random.default_rng(seed)
    mean, rank = 5.0, 5
    shared = draw.gamma(shape, 1 / shape, (50, rank))
    tables, seen = [], []
    for _ in range(max(SITES)):
        tables.append(draw.poisson(draw.gamma(shape, mean / rank / shape, (100, rank)) @ shared.T))
        seen.append(draw.random(tables[-1].shape) < 0.8)
    tables, seen = tables[:n_sites], seen[:n_sites]
    views = [
        LocallyPrivateCounts(epsilon).privatise(table, observed=mask) for table, mask in zip(tables, seen, strict=True)
    ]
    scores = []
    for given in (views, [tables[0], *views[1:]]):
        for noise in ("modelled", "naive"):
            model = LocalCountFactorization(
                rank,
                noise=noise,
                sweeps=sweeps,
                burn_in=sweeps // 2,
                n_samples=50,
                prior_shape=shape,
                random_state=seed,
            )
            scores.append(model.fit(given, observed=seen).score(tables[0], observed=~seen[0]))
    return scores


ONE = {"repeats": 1, "epsilons": (10.0,), "sites": (1,)}


def coverage(runs: int = 2, epsilons: Sequence[float] = (0.3, 1.0, 3.0, 10.0, 20.0, math.inf)) -> None:
    """How many held-out ratings are within the 90% intervals of `predict(return_std=True)`, and the error against epsilon."""
    table = pl.read_parquet(data_folder() / "movielens100k" / "ratings.parquet")
    users, films = (np.unique(table[name].to_numpy(), return_inverse=True)[1] for name in table.columns[:2])
    ratings = table[table.columns[2]].to_numpy().astype(np.float64)
    cells, shape = np.stack([users, films], axis=1), (users.max() + 1, films.max() + 1)
    print(f"MovieLens 100k, one site, rank 5, {runs} splits: coverage of 90% intervals, RMSE, RMSE of a constant")
    for unit in ("user", "cell"):
        for epsilon in epsilons:
            covered, errors, constants = [], [], []
            for seed in range(runs):
                known = np.random.default_rng(seed).random(len(ratings)) < 0.8
                data = (cells[known], ratings[known], shape)
                given = {"observed": "stored", "divergence": "euclid", "name": "ratings"}
                relation = Relation(data, "ir,jr->ij", ("user", "film"), **given)
                model = PrivateCoupledFactorization({"r": 5}, epsilon=epsilon, unit=unit, value_range=(1, 5))
                mean, std = model.fit([relation]).predict("ratings", cells[~known], return_std=True)
                away = np.abs(ratings[~known] - mean)
                covered.append(np.mean(away <= 1.645 * std))
                errors.append(rmse(mean, ratings[~known]))
                constants.append(np.std(ratings[~known]))
            found = (np.mean(covered), np.mean(errors), np.mean(constants))
            print(f"  unit {unit}, epsilon {epsilon:g}: {found[0]:.3f}, {found[1]:.3f}, {found[2]:.3f}", flush=True)


LAYOUTS = {
    "users divided": ("users", {}),
    "films divided, users common, unit cell": ("films", {"shared": ["user"], "unit": "cell", "protect": "user"}),
    "the same by gradients": ("films", {"shared": ["user"], "unit": "cell", "protect": "user", "method": "sgld"}),
    "cells divided, a person at 3 sites is 3 units": ("cells", {}),
    "cells divided, a person at 3 sites is 1 unit": ("cells", {"shared": ["user", "film"]}),
}


def layouts(repeats: int = 2, epsilons: Sequence[float] = (1.0, 3.0, 10.0, math.inf)) -> None:
    """RMSE on the held-out fifth of all sites' ratings, of the joint fit and of each site's fit of its own ratings alone."""
    table = pl.read_parquet(data_folder() / "movielens100k" / "ratings.parquet")
    users, films = (np.unique(table[name].to_numpy(), return_inverse=True)[1] for name in table.columns[:2])
    ratings = table[table.columns[2]].to_numpy().astype(np.float64)
    cells, shape = np.stack([users, films], axis=1), (int(users.max()) + 1, int(films.max()) + 1)
    print(f"MovieLens 100k, three sites, rank 5, {repeats} splits: RMSE joint, alone; of each site's constant last")
    for name, (divided, settings) in LAYOUTS.items():
        for epsilon in epsilons:
            found = []
            for seed in range(repeats):
                draw = np.random.default_rng(seed)
                held = draw.random(len(ratings)) < 0.2
                owner = {
                    "users": draw.integers(0, 3, shape[0])[users],
                    "films": draw.integers(0, 3, shape[1])[films],
                    "cells": draw.integers(0, 3, len(ratings)),
                }[divided]
                sites, scored = [], []
                for site in range(3):
                    mine, local, size = owner == site, cells.copy(), list(shape)
                    for axis, what in enumerate(("users", "films")):
                        if divided == what:  # the site's own list
                            listed, place = np.unique(cells[mine, axis], return_inverse=True)
                            local[mine, axis], size[axis] = place, len(listed)
                    data = (local[mine & ~held], ratings[mine & ~held], tuple(size))
                    sites.append([Relation(data, "ir,jr->ij", ("user", "film"), **KNOWN)])
                    scored.append((local[mine & held], ratings[mine & held]))
                model = PrivateCoupledFactorization(5, epsilon=epsilon, value_range=(1, 5), **settings)
                joint = model.fit_sites(sites)
                alone = [PrivateCoupledFactorization(**model.get_params()).fit(site) for site in sites]
                found.append(
                    [
                        _over_sites(
                            [one.predict("user-film", at) for one, (at, _) in zip(models, scored, strict=True)], scored
                        )
                        for models in (joint, alone)
                    ]
                    + [_over_sites([np.full(len(truth), truth.mean()) for _, truth in scored], scored)]
                )
            line = "  ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
            print(f"  {name}, epsilon {epsilon:g}: {line}", flush=True)


def _over_sites(predicted: Sequence[NDArray[np.float64]], scored: Sequence[tuple[Cells, NDArray[np.float64]]]) -> float:
    return rmse(np.concatenate(predicted), np.concatenate([truth for _, truth in scored]))


PARTS = {
    "layouts": Part(layouts, quick={"repeats": 1, "epsilons": (10.0,)}),
    "coverage": Part(coverage, quick={"runs": 1, "epsilons": (1.0,)}),
    "movielens": Part(films, quick=ONE, quoted=(MOVIELENS,)),
    "uclaf": Part(places, quick=ONE, quoted=(UCLAF,)),
    "sgld": Part(partial(films, 1, "sgld"), quick={"epsilons": (10.0,), "sites": (1,)}, quoted=(MOVIELENS,)),
    "accounting": Part(accounting, quick={"epsilons": (10.0,)}),
    "local": Part(counts, quick={"repeats": 1, "sweeps": 20, "epsilons": (1.0,)}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

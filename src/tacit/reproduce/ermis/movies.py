"""Sections 7.1.2 and 7.2.2, ratings: MovieLens 1M and a stand-in for Netflix, over several sites.

The text splits users among the sites and shares the movies' factors. The printed shapes, 400 x 6040 for a tenth of MovieLens,
split the 3952 movies, and share the users' factors: with more sites the same users rate more movies. Table 7.7 is computed both
ways. The unit is one cell; delta is 1e-4 for the whole fit, by sound accounting.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import (
    LocalCountFactorization,
    LocallyPrivateCounts,
    PrivateCoupledFactorization,
    PrivateRecommender,
    Recommender,
    Relation,
)
from tacit.factor.coupled.local.noise import NoisyCounts
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.datasets.ratings import RatingTriples
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Split = tuple[list[list[Relation]], NDArray[np.int64], Floats]
"""Ten sites' relations, and the first site's held-out cells and ratings."""
RANK, DELTA, SITES = 5, 1e-4, (1, 2, 5, 10)
"""K and delta of section 7.2, and the numbers of sites in Tables 7.3 and 7.7."""
TABLE_7_2 = {
    "movielens-1m": {
        math.inf: (0.831, 0.719, 0.831, 0.719, 0.861, 0.717),
        1.0: (0.930, 0.737, 1.032, 0.914, 1.026, 0.882),
        0.1: (1.419, 1.224, 1.826, 1.511, 1.695, 1.362),
        0.05: (1.866, 1.631, 2.164, 1.992, 1.992, 1.831),
    },
    "netflix-slice": {
        math.inf: (0.775, 0.802, 0.775, 0.802, 0.799, 0.827),
        1.0: (0.902, 0.933, 0.945, 0.973, 0.950, 0.985),
        0.1: (1.354, 1.419, 1.598, 1.654, 1.405, 1.468),
        0.05: (1.683, 1.812, 1.905, 1.972, 1.751, 1.835),
    },
}
"""Page 104: RMSE of X1 and X2 for CDP, LDP1 and LDP2."""
TABLE_7_3 = {
    "movielens-1m": {
        "CDP": (0.865, 0.764, 0.680, 0.612, 0.571, 0.544, 0.520, 0.502, 0.480),
        "LDP1": (1.075, 0.952, 0.856, 0.774, 0.729, 0.686, 0.648, 0.611, 0.574),
        "LDP2": (1.020, 0.809, 0.720, 0.641, 0.593, 0.564, 0.545, 0.524, 0.506),
    },
    "netflix-slice": {
        "CDP": (0.785, 0.682, 0.596, 0.539, 0.486, 0.465, 0.451, 0.440, 0.430),
        "LDP1": (1.016, 0.905, 0.804, 0.725, 0.688, 0.641, 0.603, 0.579, 0.567),
        "LDP2": (0.906, 0.765, 0.673, 0.598, 0.545, 0.506, 0.487, 0.470, 0.459),
    },
}
"""Page 105: RMSE of X1 at epsilon 1, for N = 2 to 10."""
TABLE_7_6 = {
    "CTF-zCDP (user-level)": (0.96, 1.05, 1.39, 1.87),
    "Hua et al.": (0.93, 1.25, 1.48, 2.01),
    "Liu et al.": (0.93, 1.18, 1.46, 2.05),
}
"""MovieLens, page 116: without noise, and at epsilon 10, 1 and 0.1."""
TABLE_7_7 = {
    ("NP", "site", math.inf): (0.96, 0.89, 0.81, 0.74),
    ("CTF-AC", "site", 10.0): (1.11, 1.02, 0.94, 0.88),
    ("CTF-AC", "site", 1.0): (1.44, 1.33, 1.22, 1.14),
    ("CTF-AC", "site", 0.1): (2.05, 1.90, 1.78, 1.67),
    ("CTF-AC", "user", 10.0): (1.19, 1.10, 1.01, 0.95),
    ("CTF-AC", "user", 1.0): (1.62, 1.39, 1.28, 1.20),
    ("CTF-AC", "user", 0.1): (2.26, 2.09, 1.93, 1.81),
    ("CTF-zCDP", "site", 10.0): (1.01, 0.92, 0.83, 0.77),
    ("CTF-zCDP", "site", 1.0): (1.30, 1.18, 1.07, 0.98),
    ("CTF-zCDP", "site", 0.1): (1.72, 1.59, 1.46, 1.37),
    ("CTF-zCDP", "user", 10.0): (1.05, 0.96, 0.87, 0.81),
    ("CTF-zCDP", "user", 1.0): (1.39, 1.27, 1.15, 1.08),
    ("CTF-zCDP", "user", 0.1): (1.87, 1.72, 1.57, 1.49),
}
"""MovieLens, page 118: RMSE of X1 for N = 1, 2, 5 and 10."""
CONTRADICTION = (
    "The thesis's own tables disagree: for MovieLens, N = 10, epsilon 1, site-level privacy, Table 7.3 has 0.480 and "
    "Table 7.7 has 0.98; without noise, Table 7.7 has 0.74. Held-out ratings of this data set are predicted with an "
    "error of about 0.84 by good models without privacy, so 0.74 and 0.48 cannot be errors of held-out ratings on the "
    "scale of 1 to 5."
)

OF_FITTED = "If X1 is compared with its estimate where it is known: the error of fitted ratings rises with N."
NO_READING = (
    "The thesis compares X1 with its estimate and does not say which ratings it holds out. Held-out ratings have errors "
    "near its own at N = 1 and 2. Its fall from 0.96 to 0.74 is neither that of held-out ratings nor of fitted ones: more sites "
    "leave a site less freedom to fit its own ratings. Gradient descent that is stopped after a fixed number of passes, where "
    "more sites mean more steps, does not have it either (docs/results/private_coupled.md). The fall is unexplained."
)


def rmse(predicted: Floats, truth: Floats) -> float:
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def triples_of(run: ItemRun, name: str, most_users: int | None = None, most_movies: int | None = None) -> RatingTriples:
    """Return the ratings, of the users and movies with most ratings if there are limits; fewer in a quick run."""
    rated: RatingTriples = run.data[name]
    users, movies = run.pick((most_users, most_movies), (120, 60))
    for numbers, most in ((rated.items, movies), (rated.users, users)):
        if most is not None:
            kept = np.argsort(-np.bincount(numbers), kind="stable")[:most]
            rated = rated.those(np.isin(numbers if numbers.size == rated.ratings.size else rated.users, kept))
    return rated


def split(given: RatingTriples, seed: int, *, by: str, n_sites: int = 10) -> Split:
    """Split users or movies among the sites, in random order; a fifth of the ratings is held out."""
    draw = np.random.default_rng(seed)
    own, other = (given.users, given.items) if by == "user" else (given.items, given.users)
    size = int(own.max()) + 1
    own = draw.permutation(size)[own]
    held = draw.random(len(given.ratings)) < 0.2
    ends = [site * size // n_sites for site in range(n_sites + 1)]
    width, names = int(other.max()) + 1, ("user", "film") if by == "user" else ("film", "user")
    sites = []
    for first, last in itertools.pairwise(ends):
        mine = (own >= first) & (own < last) & ~held
        cells = np.column_stack([own[mine] - first, other[mine]])
        table = (cells, given.ratings[mine], (last - first, width))
        sites.append([Relation(table, "ir,jr->ij", names, observed="stored", divergence="euclid")])
    scored = held & (own < ends[1])
    return sites, np.column_stack([own[scored], other[scored]]), given.ratings[scored]


def fit_first(
    sites: list[list[Relation]], n_sites: int, epsilon: float, protect: str, **settings: Any
) -> Callable[[NDArray[np.integer]], Floats]:
    """Fit N sites; return the prediction of the first one. Without noise, by the method for whole entities, which fits more."""
    relation = sites[0][0]
    wanted: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": DELTA,
        "unit": "user" if math.isinf(epsilon) else "cell",
        "protect": protect,
        "value_range": (1, 5),
        **settings,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = PrivateCoupledFactorization(RANK, private=relation.factors[0], **wanted).fit_sites(sites[:n_sites])[0]
    return lambda cells: np.clip(fitted.predict(relation.name, cells), 1, 5)


def error(data: Split, n_sites: int, epsilon: float, protect: str, **settings: Any) -> float:
    """Return the error of the held-out ratings at the first of N sites."""
    sites, cells, truth = data
    return rmse(fit_first(sites, n_sites, epsilon, protect, **settings)(cells), truth)


def error_of_fitted(data: Split, n_sites: int) -> float:
    """Return the error, without noise, of the ratings that the first of N sites fits."""
    cells, values = data[0][0][0].known_cells()
    return rmse(fit_first(data[0], n_sites, math.inf, "site")(cells), values)


@item(
    paper="ermis",
    name="table-7.7",
    title="MovieLens: privacy notions by the number of sites",
    page=118,
    needs=("movielens-1m",),
    minutes=15,
    code=("tacit.PrivateCoupledFactorization",),
    covers=("table-7.7", "figure-7.13"),
)
def table_7_7(run: ItemRun) -> ItemOutcome:
    """Table 7.7 and Figure 7.13, pages 117 and 118; AC and zCDP are two noises; ours is the same beside both."""
    given = triples_of(run, "movielens-1m")
    numbers = run.pick(SITES, (1, 2))
    tables, figures = [], []
    for by, caption in (
        ("user", "users split among the sites, as in the text"),
        ("film", "movies split, as in the printed shapes"),
    ):
        data = [split(given, seed, by=by) for seed in run.seeds]
        errors: dict[tuple[str, float, int], tuple[float, ...]] = {}
        wanted = dict.fromkeys((protect, epsilon) for _, protect, epsilon in TABLE_7_7)
        for protect, epsilon in run.each(run.pick(tuple(wanted), tuple(wanted)[:2])):
            for n_sites in numbers:
                errors[protect, epsilon, n_sites] = tuple(error(one, n_sites, epsilon, protect) for one in data)
        rows = []
        for (method, protect, epsilon), printed in TABLE_7_7.items():
            for n_sites, paper in zip(SITES, printed, strict=True):
                if (protect, epsilon, n_sites) in errors:
                    shown = "NP" if method == "NP" else f"{method} ({protect}-level)"
                    label = (shown, "-" if math.isinf(epsilon) else f"{epsilon:g}", str(n_sites))
                    rows.append(Row(label, paper, errors[protect, epsilon, n_sites], "lower", _why(paper), 2))
        for n_sites, paper in list(zip(SITES, TABLE_7_7["NP", "site", math.inf], strict=True))[: len(numbers)]:
            ours = tuple(error_of_fitted(one, n_sites) for one in data)
            rows.append(Row(("NP, fitted ratings", "-", str(n_sites)), paper, ours, "lower", OF_FITTED, 2))
        tables.append(SideBySide(f"Table 7.7, RMSE, {caption}", ("method", "epsilon", "N"), tuple(rows)))
        for epsilon in (1.0, 0.1):
            curves = []
            for (method, protect, one), printed in TABLE_7_7.items():
                if one == epsilon:
                    curves.append(Curve(f"thesis, {method} {protect}", tuple(map(float, SITES)), printed, dashed=True))
            for protect in ("site", "user"):
                if (protect, epsilon, numbers[0]) in errors:
                    values = np.transpose([errors[protect, epsilon, n_sites] for n_sites in numbers])
                    curves.append(Curve.of(f"ours, {protect}", numbers, values))
            figures.append(Figure(f"Figure 7.13, epsilon {epsilon:g}, {caption}", "sites N", "RMSE", tuple(curves)))
    return ItemOutcome(tuple(tables), tuple(figures), verdicts=(CONTRADICTION, NO_READING))


def _why(paper: float) -> str:
    if paper < 0.84:
        return "Below the error of good models without privacy (about 0.84): not an error of held-out ratings."
    return "Noisy moments instead of noisy gradients."


def _dense(given: RatingTriples, seed: int, n_sites: int) -> tuple[list[Integers], list[Mask], list[Mask]]:
    """Return the sites' tables of movies by users, which cells are known, and which are held out."""
    draw = np.random.default_rng(seed)
    table = np.zeros((int(given.items.max()) + 1, int(given.users.max()) + 1), dtype=np.int64)
    table[given.items, given.users] = given.ratings.astype(np.int64)
    table = table[draw.permutation(len(table))]
    held = draw.random(table.shape) < 0.2
    parts = np.array_split(np.arange(len(table)), n_sites)
    rated = table > 0
    return (
        [table[part] for part in parts],
        [(rated & ~held)[part] for part in parts],
        [(rated & held)[part] for part in parts],
    )


def _local_error(
    run: ItemRun,
    tables: list[Integers],
    seen: list[Mask],
    held: list[Mask],
    epsilon: float,
    *,
    own: int | None,
    site: int,
) -> float:
    """Return the error of LDP1, or of LDP2 at the site `own`; a rating may change by 4."""
    views: list[NoisyCounts | Integers] = list(tables)
    if not math.isinf(epsilon):
        views = [
            LocallyPrivateCounts(epsilon, 4).privatise(table, observed=mask)
            for table, mask in zip(tables, seen, strict=True)
        ]
    if own is not None:
        views[own] = tables[own]
    sweeps = run.pick(40, 3)
    model = LocalCountFactorization(RANK, sweeps=sweeps, burn_in=sweeps // 2, n_samples=10).fit(views, observed=seen)
    return rmse(np.clip(model.predict(site)[held[site]], 1, 5), tables[site][held[site]].astype(float))


def _central_error(
    tables: list[Integers], seen: list[Mask], held: list[Mask], epsilon: float, protect: str, *, site: int
) -> float:
    order = [site, *(place for place in range(len(tables)) if place != site)]
    sites = []
    for place in order:
        cells = np.argwhere(seen[place])
        values = tables[place][seen[place]].astype(float)
        table = (cells, values, tables[place].shape)
        sites.append([Relation(table, "ir,jr->ij", ("film", "user"), observed="stored", divergence="euclid")])
    return error((sites, np.argwhere(held[site]), tables[site][held[site]].astype(float)), len(sites), epsilon, protect)


SMALL = (
    "Of the 600 movies and 1000 users with most ratings; Poisson counts are not ratings, and a rating may change by 4."
)


@item(
    paper="ermis",
    name="table-7.2",
    title="MovieLens and Netflix: central and local privacy, two sites",
    page=104,
    needs=("movielens-1m", "netflix-slice"),
    minutes=8,
    code=("tacit.PrivateCoupledFactorization", "tacit.LocalCountFactorization", "tacit.LocallyPrivateCounts"),
)
def table_7_2(run: ItemRun) -> ItemOutcome:
    """Table 7.2, page 104: movies split among two sites, as in the printed shapes."""
    rows = []
    parts = [(name, epsilon) for name in TABLE_7_2 for epsilon in TABLE_7_2[name]]
    for name, epsilon in run.each(run.pick(parts, parts[1:6:4])):
        given = triples_of(run, name, 1000, 600)
        errors: dict[tuple[str, int], list[float]] = {}
        for seed in run.seeds:
            tables, seen, held = _dense(given, seed, 2)
            for site in (0, 1):
                central = _central_error(
                    tables, seen, held, epsilon, "user" if name == "movielens-1m" else "site", site=site
                )
                errors.setdefault(("CDP", site), []).append(central)
                for method, own in (("LDP1", None), ("LDP2", site)):
                    value = _local_error(run, tables, seen, held, epsilon, own=own, site=site)
                    errors.setdefault((method, site), []).append(value)
        for place, (method, site) in enumerate(itertools.product(("CDP", "LDP1", "LDP2"), (0, 1))):
            label = (name, "NP" if math.isinf(epsilon) else f"{epsilon:g}", method, f"X{site + 1}")
            paper = TABLE_7_2[name][epsilon][place]
            rows.append(
                Row(label, paper, tuple(errors[method, site]), "lower" if name == "movielens-1m" else None, SMALL, 3)
            )
    return ItemOutcome((SideBySide("Table 7.2, RMSE", ("data", "epsilon", "method", "site"), tuple(rows)),))


@item(
    paper="ermis",
    name="table-7.3",
    title="MovieLens and Netflix: central and local privacy, 2 to 10 sites",
    page=105,
    needs=("movielens-1m", "netflix-slice"),
    minutes=8,
    code=("tacit.PrivateCoupledFactorization", "tacit.LocalCountFactorization"),
    covers=("table-7.3", "figure-7.6"),
)
def table_7_3(run: ItemRun) -> ItemOutcome:
    """Table 7.3 and Figure 7.6, pages 104 and 105: epsilon 1; the first site's error as sites join."""
    numbers = run.pick((2, 3, 5, 7, 10), (2, 3))
    rows, figures = [], []
    for name, printed in run.each(tuple(TABLE_7_3.items())):
        given = triples_of(run, name, 1000, 600)
        errors: dict[tuple[str, int], list[float]] = {}
        for seed in run.seeds:
            tables, seen, held = _dense(given, seed, 10)
            for n_sites in numbers:
                some = (tables[:n_sites], seen[:n_sites], held[:n_sites])
                errors.setdefault(("CDP", n_sites), []).append(_central_error(*some, 1.0, "site", site=0))
                for method, own in (("LDP1", None), ("LDP2", 0)):
                    errors.setdefault((method, n_sites), []).append(_local_error(run, *some, 1.0, own=own, site=0))
        curves = []
        for method in ("CDP", "LDP1", "LDP2"):
            for n_sites in numbers:
                paper = printed[method][n_sites - 2]
                label = (name, method, str(n_sites))
                remark = f"{_why(paper)} {SMALL}"
                rows.append(
                    Row(
                        label,
                        paper,
                        tuple(errors[method, n_sites]),
                        "lower" if name == "movielens-1m" else None,
                        remark,
                        3,
                    )
                )
            curves.append(Curve.of(f"ours, {method}", numbers, np.transpose([errors[method, n] for n in numbers])))
            curves.append(Curve(f"thesis, {method}", tuple(map(float, range(2, 11))), printed[method], dashed=True))
        figures.append(Figure(f"Figure 7.6, {name}, epsilon 1", "sites N", "RMSE", tuple(curves)))
    table = SideBySide("Table 7.3, RMSE of X1, epsilon 1", ("data", "method", "N"), tuple(rows))
    return ItemOutcome((table,), tuple(figures), verdicts=(CONTRADICTION,))


@item(
    paper="ermis",
    name="figure-7.5",
    title="MovieLens and Netflix: noisy gradients by the number of passes",
    page=102,
    needs=("movielens-1m", "netflix-slice"),
    minutes=6,
    code=("tacit.PrivateCoupledFactorization",),
)
def figure_7_5(run: ItemRun) -> ItemOutcome:
    """Figure 7.5a, page 102: epsilon 0.1; advanced composition, zCDP, sound gradients, and the moments as a level."""
    passes, rate = run.pick((5, 20, 50), (1,)), run.pick(0.05, 0.5)
    figures = []
    for name in run.each(("movielens-1m", "netflix-slice")):
        given = triples_of(run, name, 1000, 600)
        data = [split(given, seed, by="user", n_sites=1) for seed in run.seeds]
        curves = []
        for label, settings in (
            ("Wang et al. (advanced composition)", {"method": "published", "composition": "advanced"}),
            ("zCDP (thesis)", {"method": "published", "composition": "zcdp"}),
            ("gradients, sound accounting", {"method": "sgld"}),
        ):
            errors = [
                [
                    error(one, 1, 0.1, "user", rounds=max(round(n / rate), 1), sampling_rate=rate, **settings)
                    for n in passes
                ]
                for one in data
            ]
            curves.append(Curve.of(label, passes, errors))
        level = np.repeat([[error(one, 1, 0.1, "user")] for one in data], len(passes), axis=1)
        curves.append(Curve.of("moments (tacit)", passes, level, dashed=True))
        figures.append(Figure(f"Figure 7.5a, {name}, epsilon 0.1", "data passes", "RMSE", tuple(curves)))
    return ItemOutcome(figures=tuple(figures))


@item(
    paper="ermis",
    name="table-7.6",
    title="MovieLens: compared with methods for one site",
    page=116,
    needs=("movielens-1m",),
    minutes=6,
    code=("tacit.PrivateCoupledFactorization", "tacit.PrivateRecommender"),
    covers=("table-7.6", "figure-7.12"),
)
def table_7_6(run: ItemRun) -> ItemOutcome:
    """Table 7.6 and Figures 7.5b and 7.12, page 116: all data at one site.

    Hua et al. perturb gradients: the repaired gradient method of `PrivateRecommender`. Liu et al. sample with advanced
    composition: the thesis's own gradients with that noise.
    """
    given = triples_of(run, "movielens-1m", 2000, 1200)
    data = [split(given, seed, by="user", n_sites=1) for seed in run.seeds]
    epsilons = (math.inf, 10.0, 1.0, 0.1)

    def ours(one: Split, epsilon: float) -> float:
        return error(one, 1, epsilon, "user")

    def gradients(one: Split, epsilon: float) -> float:
        sites, cells, truth = one
        known, values = sites[0][0].known_cells()
        model: Recommender | PrivateRecommender = (
            Recommender(RANK)
            if math.isinf(epsilon)
            else PrivateRecommender(
                RANK, epsilon=epsilon, delta=DELTA, method="gradient", unit="cell", rounds=run.pick(30, 2)
            )
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(known[:, 0], known[:, 1], values)
        return rmse(model.predict(cells[:, 0], cells[:, 1], unknown="mean"), truth)

    def sampled(one: Split, epsilon: float) -> float:
        rate = 0.05
        settings: dict[str, Any] = {"rounds": run.pick(400, 2), "sampling_rate": rate}
        if math.isinf(epsilon):
            return error(one, 1, epsilon, "user", method="sgld", **settings)
        return error(one, 1, epsilon, "user", method="published", composition="advanced", **settings)

    methods: dict[str, tuple[Callable[[Split, float], float], str]] = {
        "CTF-zCDP (user-level)": (ours, "Noisy moments, sound accounting; users' factors released too."),
        "Hua et al.": (
            gradients,
            "Gradients of tacit's recommender; protects the value of a rating, not who rated what.",
        ),
        "Liu et al.": (sampled, "Langevin gradients with the noise of advanced composition."),
    }
    rows, curves = [], []
    for name, (method, remark) in run.each(tuple(methods.items())):
        errors = {epsilon: tuple(method(one, epsilon) for one in data) for epsilon in run.pick(epsilons, epsilons[::2])}
        for epsilon, values in errors.items():
            label = ("MovieLens", name, "NP" if math.isinf(epsilon) else f"{epsilon:g}")
            rows.append(Row(label, TABLE_7_6[name][epsilons.index(epsilon)], values, "lower", remark, 3))
        shown = [epsilon for epsilon in errors if not math.isinf(epsilon)]
        curves.append(Curve.of(name, shown, np.transpose([errors[epsilon] for epsilon in shown])))
    figure = Figure("Figures 7.5b and 7.12: MovieLens, one site", "epsilon", "RMSE", tuple(curves), log_x=True)
    caption = "Table 7.6, RMSE, of the 2000 users and 1200 movies with most ratings; Flickr is in Table 7.8"
    return ItemOutcome((SideBySide(caption, ("data", "method", "epsilon"), tuple(rows)),), (figure,))

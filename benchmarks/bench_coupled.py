"""Coupled factorisation on real data beside the thesis (Ermis 2020, chapter 6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from harness import Part, Quoted, main
from real_data import data_folder
from sklearn.metrics import roc_auc_score

from tacit import AllBut, CoupledFactorization, Relation

CP, TUCKER = "ir,jr,kr->ijk", "ir,js,kt,rst->ijk"
NAMES = ("user", "place", "activity")
DISPERSIONS = {"visits": 3.0, "features": 30.0}
"""Of UCLAF's side matrices, which would otherwise outweigh the tensor."""
PRIOR = {"prior_shape": 1.2, "prior_scale": 0.1}
"""For point estimates. This and the dispersions were chosen among about 20 settings, by the AUC of splits with seeds 0 to 2."""
STARTS = 5
"""Of a fit with a prior: predictions are the geometric means of so many starts'."""
TINY = 1e-9
LINKS = Quoted(
    "Table 6.2 of Ermis (2020): AUC at 40%, 80% and 90% hidden, by model, divergence, coupled or single",
    {
        ("CP", "kl", "coupled"): (0.968, 0.937, 0.869),
        ("Tucker", "kl", "coupled"): (0.983, 0.948, 0.908),
        ("CP", "kl", "single"): (0.946, 0.867, None),
        ("CP", "euclid", "coupled"): (0.951, 0.915, 0.813),
    },
)
COMPLETION = Quoted(
    "Table 6.1 of Ermis (2020): RMSE by the fraction that is known, of cells and values that it does not state",
    {0.3: 0.19, 0.5: 0.18},
)
BAYES = Quoted(
    "Table 6.5 of Ermis (2020), variational Bayes, CP, rank 2: AUC at 60%, 80% and 90% hidden, coupled or single",
    {True: (0.981, 0.962, 0.939), False: (0.973, 0.959, 0.917)},
)
SEEDS = range(200, 210)
"""Of the splits that are reported: none of those that anything was chosen on."""


@cache
def uclaf_data(scaled: str = "0/1") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the links as 0/1, and the side matrices as 0/1, as they are ("raw"), or their log(1 + x)."""
    scale = {"0/1": lambda x: (x > 0) * 1.0, "raw": lambda x: x.astype(float), "log": np.log1p}[scaled]
    with np.load(data_folder() / "tensors" / "uclaf.npz") as found:
        return (found["UserLocAct"] > 0) * 1.0, scale(found["UserLoc"]), scale(found["LocFea"])


def uclaf_relations(
    observed: Any,
    *,
    tucker: bool = False,
    coupled: bool = True,
    divergence: str = "kl",
    plain: bool = False,
    scaled: str = "0/1",
    links: np.ndarray | None = None,
) -> list[Relation]:
    """The thesis's models (6.1) to (6.7): users have a factor in the visits too, places in the features too."""
    found, visits, features = uclaf_data(scaled)
    links = found if links is None else links
    names = (*NAMES, "core") if tucker else NAMES
    relations = [
        Relation(links, TUCKER if tucker else CP, names, observed=observed, divergence=divergence, name="links")
    ]
    if coupled:
        side = {
            name: {"divergence": divergence, "dispersion": 1.0 if plain else phi} for name, phi in DISPERSIONS.items()
        }
        place = "js,fs->jf" if tucker else "jr,fr->jf"
        relations.append(Relation(visits, "ir,vr->iv", ("user", "visited"), name="visits", **side["visits"]))
        relations.append(Relation(features, place, ("place", "feature"), name="features", **side["features"]))
    return relations


def uclaf_links(
    observed: Any, seed: int, *, rank: int = 2, inference: str = "map", sweeps: int = 200, **model: Any
) -> np.ndarray:
    """Return what is predicted: of likelihood the best of three starts, otherwise the geometric mean of several."""
    plain = inference == "map" and model.get("plain", False)
    options = {"inference": inference, "max_iter": sweeps, "n_init": 3 if plain and rank == 2 else 1}
    prior = PRIOR if inference == "map" and not plain else {}
    relations = uclaf_relations(observed, **model)
    logs = [
        np.log(
            CoupledFactorization(rank, random_state=100 * seed + start, **options, **prior)
            .fit(relations)
            .predict("links")
            + TINY
        )
        for start in range(1 if plain or rank > 2 else STARTS)
    ]
    return np.asarray(np.exp(np.mean(logs, axis=0)))


def uclaf_scores(missing: float, runs: int, **model: Any) -> tuple[float, float, float]:
    """Return the mean AUC, its spread over runs, and the RMSE, of cells hidden at random."""
    links = uclaf_data()[0]
    areas, errors = [], []
    for seed in SEEDS[:runs]:
        known = np.random.default_rng(seed).random(links.shape) >= missing
        found = uclaf_links(known, seed, **model)
        areas.append(roc_auc_score(links[~known], found[~known]))
        errors.append(np.sqrt(np.mean((links - found)[~known] ** 2)))
    return float(np.mean(areas)), float(np.std(areas)), float(np.mean(errors))


def uclaf(runs: int = len(SEEDS), sweeps: int = 200) -> None:
    print(f"UCLAF links, AUC of hidden cells, ±: spread over {runs} splits (thesis*), rank 2")
    models = (
        ("CP", "kl", "coupled, prior"),
        ("Tucker", "kl", "coupled, prior"),
        ("CP", "kl", "coupled, likelihood, dispersions 1"),
        ("Tucker", "kl", "coupled, likelihood, dispersions 1"),
        ("CP", "kl", "single, likelihood"),
        ("CP", "kl", "single, prior"),
        ("CP", "euclid", "coupled, likelihood, dispersions 1"),
    )
    for kind, divergence, how in models:
        thesis = LINKS[kind, divergence, how.split(",")[0]]
        options = {"tucker": kind == "Tucker", "coupled": how.startswith("coupled"), "plain": "likelihood" in how}
        cells = []
        for missing, theirs in zip((0.4, 0.8, 0.9), thesis, strict=True):
            area, spread, _ = uclaf_scores(missing, runs, divergence=divergence, sweeps=sweeps, **options)
            cells.append(f"{missing:.0%}: {area:.3f} ±{spread:.3f} ({theirs if theirs else '-'})")
        print(f"  {kind} {divergence}, {how}: " + "  ".join(cells), flush=True)
    print(
        "UCLAF completion, RMSE of all hidden cells of the 0/1 tensor (thesis*: of cells and values that it does not state)"
    )
    for train, theirs in COMPLETION.items():
        print(f"  {train:.0%} known: {uclaf_scores(1 - train, runs, sweeps=sweeps)[2]:.3f} ({theirs})", flush=True)


def readings(runs: int = 5, sweeps: int = 200) -> None:
    """What the thesis leaves open about its splits and matrices, each way of reading it."""
    print(f"UCLAF links, coupled, KL, prior, {runs} splits: AUC at 40%, 80%, 90% hidden")
    links = uclaf_data()[0]
    for tucker in (False, True):
        areas: dict[str, list[list[float]]] = {}
        for missing in (0.4, 0.8, 0.9):
            found: dict[str, list[float]] = {}

            def keep(how: str, truth: np.ndarray, scores: np.ndarray, found: dict[str, list[float]] = found) -> None:
                found.setdefault(how, []).append(roc_auc_score(truth.ravel(), scores.ravel()))

            for seed in SEEDS[:runs]:
                known = np.random.default_rng(seed).random(links.shape) >= missing
                scores = uclaf_links(known, seed, sweeps=sweeps, tucker=tucker)
                keep("hidden cells", links[~known], scores[~known])
                keep("all cells of the tensor, known ones too", links, scores)
                some = known | (links == 0)
                scores = uclaf_links(some, seed, sweeps=sweeps, tucker=tucker)
                scored = ~known | (links == 0)
                keep("only links hidden, against all zeros", links[scored], scores[scored])
                scores = uclaf_links(None, seed, sweeps=sweeps, tucker=tucker, links=links * known)
                keep("hidden cells taken for zeros", links[~known], scores[~known])
                for scaled in ("raw", "log"):
                    scores = uclaf_links(known, seed, sweeps=sweeps, tucker=tucker, scaled=scaled)
                    keep(f"hidden cells, side matrices {scaled}", links[~known], scores[~known])
            for how, one in found.items():
                areas.setdefault(how, []).append(one)
        for how, columns in areas.items():
            print(f"  {'Tucker' if tucker else 'CP'}, {how}: " + " / ".join(f"{np.mean(one):.3f}" for one in columns))


def bayes(runs: int = len(SEEDS), sweeps: int = 200) -> None:
    print(f"UCLAF links, variational Bayes, AUC of hidden cells, ±: spread over {runs} splits (thesis*, rank 2)")
    for coupled, thesis in BAYES.items():
        for rank in (2, 20):
            cells = []
            for missing, theirs in zip((0.6, 0.8, 0.9), thesis, strict=True):
                some = runs if rank == 2 else max(runs // 3, 1)
                area, spread, _ = uclaf_scores(missing, some, rank=rank, inference="vb", sweeps=sweeps, coupled=coupled)
                cells.append(f"{missing:.0%}: {area:.3f} ±{spread:.3f} ({theirs if rank == 2 else '-'})")
            print(f"  {'coupled' if coupled else 'single'}, rank {rank}: " + "  ".join(cells), flush=True)
    print("Point estimates by likelihood, coupled, 80% hidden, rank 2 and 20")
    some = max(runs // 3, 1)
    areas = [uclaf_scores(0.8, some, rank=rank, sweeps=sweeps, plain=True)[0] for rank in (2, 20)]
    print(f"  {areas[0]:.3f} and {areas[1]:.3f}", flush=True)


def cold(runs: int = len(SEEDS), sweeps: int = 200) -> None:
    """Users whose every link is hidden: what is popular predicts them too, but not one apart from another."""
    print("UCLAF cold start, rank 2, KL. AUC of all links of the hidden users; and which of them goes there: AUC of")
    print(
        "hidden users against each other within a place and activity, where what is popular is no help (chance is 0.5)"
    )
    links = uclaf_data()[0]
    models = {"single CP": (False, False), "coupled CP": (False, True), "coupled Tucker": (True, True)}
    for hidden in (10, 50):
        for kind, (tucker, coupled) in models.items():
            areas, apart = [], []
            for seed in SEEDS[:runs]:
                users = np.random.default_rng(seed).choice(np.flatnonzero(links.sum((1, 2))), hidden, replace=False)
                found = uclaf_links(AllBut(slices={0: users}), seed, sweeps=sweeps, tucker=tucker, coupled=coupled)[
                    users
                ]
                areas.append(roc_auc_score(links[users].ravel(), found.ravel()))
                apart.append(area_within_columns(links[users].reshape(hidden, -1), found.reshape(hidden, -1)))
            print(f"  {hidden} users, {kind}: {np.mean(areas):.3f} ±{np.std(areas):.3f}; ", end="")
            print(f"which of them {np.mean(apart):.3f} ±{np.std(apart):.3f}", flush=True)


def area_within_columns(truth: np.ndarray, found: np.ndarray) -> float:
    """Return the mean area under the curve of the columns, weighted by their pairs of a link and no link."""
    mixed = (truth.min(axis=0) == 0) & (truth.max(axis=0) == 1)
    pairs = (truth.sum(axis=0) * (1 - truth).sum(axis=0))[mixed]
    columns = np.flatnonzero(mixed)
    return float(np.average([roc_auc_score(truth[:, c], found[:, c]) for c in columns], weights=pairs))


@cache
def lastfm_triples() -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Return the tag triples and the pairs of listeners and artists, by index over the artists of both."""
    import polars

    folder = data_folder() / "tensors"
    tags = polars.read_parquet(folder / "lastfm_hetrec_user_artist_tag.parquet")
    plays = polars.read_parquet(folder / "lastfm_hetrec_user_artist_weight.parquet")
    users = np.unique(np.concatenate([tags["userID"], plays["userID"]]))
    artists = np.unique(np.concatenate([tags["artistID"], plays["artistID"]]))
    names = np.unique(tags["tagID"])
    triples = np.stack(
        [
            np.searchsorted(users, tags["userID"]),
            np.searchsorted(artists, tags["artistID"]),
            np.searchsorted(names, tags["tagID"]),
        ],
        1,
    )
    pairs = np.stack([np.searchsorted(users, plays["userID"]), np.searchsorted(artists, plays["artistID"])], axis=1)
    sizes = {"user": len(users), "artist": len(artists), "tag": len(names)}
    return triples, pairs, sizes


def without_a_link(cells: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator, *, alike: bool) -> np.ndarray:
    """Draw about as many cells that are not stored as are: by chance, or `alike` in how frequent their entities are."""
    columns = [
        rng.permutation(column) if alike else rng.integers(0, size, len(cells))
        for column, size in zip(cells.T, shape, strict=True)
    ]
    drawn = np.unique(np.stack(columns, axis=1), axis=0)
    return drawn[~np.isin(np.ravel_multi_index(tuple(drawn.T), shape), np.ravel_multi_index(tuple(cells.T), shape))]


def lastfm_area(seed: int, missing: float, divergence: str, *, coupled: bool, alike: bool, sweeps: int) -> float:
    """Hide a part of the links and of as many cells without one, fit the rest, and tell the hidden ones apart."""
    triples, pairs, sizes = lastfm_triples()
    shape, rng = tuple(sizes.values()), np.random.default_rng(seed)
    side = {"divergence": divergence, "observed": "stored"}

    def with_zeros(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        zeros = without_a_link(cells, shape[: cells.shape[1]], rng, alike=alike)
        return np.vstack([cells, zeros]), np.concatenate([np.ones(len(cells)), np.zeros(len(zeros))])

    cells, values = with_zeros(triples)
    hidden = rng.random(len(cells)) < missing
    relations = [Relation((cells[~hidden], values[~hidden], shape), CP, ("user", "artist", "tag"), name="tags", **side)]
    if coupled:
        data = (*with_zeros(pairs), shape[:2])
        relations.append(Relation(data, "ir,jr->ij", ("user", "artist"), name="listens", **side))
    fit = CoupledFactorization(10, random_state=seed, max_iter=sweeps, prior_shape=1.1, prior_scale=1.0).fit(relations)
    return float(roc_auc_score(values[hidden], fit.predict("tags", cells[hidden])))


def lastfm(runs: int = 3, hidden: Sequence[float] = (0.4, 0.9), sweeps: int = 60) -> None:
    print(
        "Last.fm user x artist x tag, alone and coupled with who listens to whom, rank 10: AUC of hidden links against as many"
    )
    print("cells without one, drawn by chance, or drawn with users, artists and tags as frequent as those of the links")
    for alike in (True, False):
        for missing in hidden:
            for divergence in ("kl", "itakura-saito"):
                cells = []
                for coupled in (False, True):
                    areas = [
                        lastfm_area(seed, missing, divergence, coupled=coupled, alike=alike, sweeps=sweeps)
                        for seed in SEEDS[:runs]
                    ]
                    cells.append(f"{'coupled' if coupled else 'single'} {np.mean(areas):.3f} ±{np.std(areas):.3f}")
                drawn = "as frequent" if alike else "by chance"
                print(f"  {drawn}, {missing:.0%} hidden, {divergence}: " + "  ".join(cells), flush=True)


ONE = {"runs": 1, "sweeps": 3}
PARTS = {
    "uclaf": Part(uclaf, quick=ONE, quoted=(LINKS, COMPLETION)),
    "readings": Part(readings, quick=ONE),
    "bayes": Part(bayes, quick=ONE, quoted=(BAYES,)),
    "cold": Part(cold, quick=ONE),
    "lastfm": Part(lastfm, quick={"hidden": (0.4,), **ONE}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

"""Coupled factorisation on real data: readings of what Ermis (2020) does not specify about UCLAF, and Last.fm.

The tables of the thesis are computed by `tacit reproduce ermis`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from harness import Part, main
from real_data import data_folder
from sklearn.metrics import roc_auc_score

from tacit import CoupledFactorization, Relation

CP, TUCKER = "ir,jr,kr->ijk", "ir,js,kt,rst->ijk"
NAMES = ("user", "place", "activity")
DISPERSIONS = {"visits": 3.0, "features": 30.0}
"""Dispersions of UCLAF's side matrices, which would otherwise outweigh the tensor."""
PRIOR = {"prior_shape": 1.2, "prior_scale": 0.1}
"""Prior of point estimates. It and the dispersions were chosen among about 20 settings, by AUC on splits 0 to 2."""
STARTS = 5
"""Number of starts of a fit with a prior; its predictions are the geometric means over them."""
TINY = 1e-9
SEEDS = range(200, 210)
"""Seeds of the reported splits; nothing was chosen on any of them."""


@cache
def uclaf_data(scaled: str = "0/1") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the links as 0/1, and the side matrices as 0/1, unchanged ("raw"), or their log(1 + x)."""
    scale = {"0/1": lambda x: (x > 0) * 1.0, "raw": lambda x: x.astype(float), "log": np.log1p}[scaled]
    with np.load(data_folder() / "tensors" / "uclaf.npz") as arrays:
        return (arrays["UserLocAct"] > 0) * 1.0, scale(arrays["UserLoc"]), scale(arrays["LocFea"])


def uclaf_relations(
    observed: Any,
    *,
    tucker: bool = False,
    coupled: bool = True,
    divergence: str = "kl",
    plain: bool = False,
    scaled: str = "0/1",
    links: np.ndarray | None = None,
    given: bool = True,
) -> list[Relation]:
    """The thesis's models (6.1) to (6.7): the visits share the users' factor, the features share the places' factor."""
    stored, visits, features = uclaf_data(scaled)
    links = stored if links is None else links
    names = (*NAMES, "core") if tucker else NAMES
    relations = [
        Relation(links, TUCKER if tucker else CP, names, observed=observed, divergence=divergence, name="links")
    ]
    if coupled:
        side = {
            name: {"divergence": divergence, **({"dispersion": 1.0 if plain else phi} if given else {})}
            for name, phi in DISPERSIONS.items()
        }
        place = "js,fs->jf" if tucker else "jr,fr->jf"
        relations.append(Relation(visits, "ir,vr->iv", ("user", "visited"), name="visits", **side["visits"]))
        relations.append(Relation(features, place, ("place", "feature"), name="features", **side["features"]))
    return relations


def uclaf_links(
    observed: Any, seed: int, *, rank: int = 2, inference: str = "map", sweeps: int = 200, **model: Any
) -> np.ndarray:
    """Return predictions: maximum likelihood, the best of three starts; otherwise, the geometric mean of several."""
    plain = inference == "map" and model.get("plain", False)
    options = {"inference": inference, "max_iter": sweeps, "tol": 1e-6, "dispersion": "given"}
    options["n_init"] = 3 if plain and rank == 2 else 1
    prior = ({"prior_shape": 1.0} if plain else PRIOR) if inference == "map" else {}
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


def defaults(runs: int = len(SEEDS)) -> None:
    """Compare the default settings with the tuned ones of `uclaf`, and with one start without prior and dispersions."""
    print(
        f"UCLAF links, coupled CP, KL, rank 2, {runs} splits: AUC at 40%, 80%, 90% hidden, and time over that of the first"
    )
    links = uclaf_data()[0]
    former = {"prior_shape": 1.0, "n_init": 1, "dispersion": "given"}
    models: dict[str, Any] = {
        "one start, likelihood, dispersions 1": lambda seed: CoupledFactorization(2, random_state=seed, **former),
        "defaults": lambda seed: CoupledFactorization(2, random_state=seed),
        "defaults, one start": lambda seed: CoupledFactorization(2, random_state=seed, n_init=1),
    }
    spent: dict[str, float] = dict.fromkeys(models, 0.0)
    areas: dict[str, list[str]] = {name: [] for name in models}
    for missing in (0.4, 0.8, 0.9):
        found: dict[str, list[float]] = {name: [] for name in models}
        for seed in SEEDS[:runs]:
            known = np.random.default_rng(seed).random(links.shape) >= missing
            relations = uclaf_relations(known, plain=True, given=False)
            for name, model in models.items():
                begun = time.process_time()
                predicted = model(seed).fit(relations).predict("links")
                spent[name] += time.process_time() - begun
                found[name].append(roc_auc_score(links[~known], predicted[~known]))
        for name, one in found.items():
            areas[name].append(f"{np.mean(one):.3f} ±{np.std(one):.3f}")
    first = next(iter(spent.values()))
    for name, cells in areas.items():
        print(f"  {name}: {' / '.join(cells)}; time {spent[name] / first:.2f}", flush=True)


def readings(runs: int = 5, sweeps: int = 200) -> None:
    """Run each possible reading of what the thesis does not specify about its splits and matrices."""
    print(f"UCLAF links, coupled, KL, prior, {runs} splits: AUC at 40%, 80%, 90% hidden")
    links = uclaf_data()[0]
    for tucker in (False, True):
        areas: dict[str, list[list[float]]] = {}
        for missing in (0.4, 0.8, 0.9):
            by_reading: dict[str, list[float]] = {}

            def keep(
                how: str, truth: np.ndarray, scores: np.ndarray, into: dict[str, list[float]] = by_reading
            ) -> None:
                into.setdefault(how, []).append(roc_auc_score(truth.ravel(), scores.ravel()))

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
            for how, one in by_reading.items():
                areas.setdefault(how, []).append(one)
        for how, columns in areas.items():
            print(f"  {'Tucker' if tucker else 'CP'}, {how}: " + " / ".join(f"{np.mean(one):.3f}" for one in columns))


@cache
def lastfm_triples() -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Return the (user, artist, tag) triples and the (listener, artist) pairs, indexed over the artists of both."""
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
    """Draw about as many unstored cells as stored ones: uniformly, or (`alike`) by the frequencies of their entities."""
    columns = [
        rng.permutation(column) if alike else rng.integers(0, size, len(cells))
        for column, size in zip(cells.T, shape, strict=True)
    ]
    drawn = np.unique(np.stack(columns, axis=1), axis=0)
    return drawn[~np.isin(np.ravel_multi_index(tuple(drawn.T), shape), np.ravel_multi_index(tuple(cells.T), shape))]


def lastfm_area(seed: int, missing: float, divergence: str, *, coupled: bool, alike: bool, sweeps: int) -> float:
    """Hide some links and as many non-links, fit the rest, and measure how well the hidden ones are separated."""
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
    fit = CoupledFactorization(
        10, random_state=seed, max_iter=sweeps, prior_shape=1.1, prior_scale=1.0, n_init=1, dispersion="given"
    ).fit(relations)
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
    "defaults": Part(defaults, quick={"runs": 1}),
    "readings": Part(readings, quick=ONE),
    "lastfm": Part(lastfm, quick={"hidden": (0.4,), **ONE}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

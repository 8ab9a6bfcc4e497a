"""Coupled factorisation on real data beside the thesis (Ermis 2020, chapter 6).

Each part is a function; name some to run them alone: ``python bench_coupled.py uclaf bayes cold lastfm``.
"""

from __future__ import annotations

import sys
import warnings
from functools import cache
from typing import Any

import numpy as np
from real_data import data_folder
from sklearn.metrics import roc_auc_score

from tacit import AllBut, CoupledFactorization, Relation

CP, TUCKER = "ir,jr,kr->ijk", "ir,js,kt,rst->ijk"
NAMES = ("user", "place", "activity")
DISPERSIONS = {"CP": {"visits": 3.0, "features": 30.0}, "Tucker": {"visits": 1.0, "features": 10.0}}
"""Of UCLAF's side matrices, which would otherwise outweigh the tensor."""
PRIOR = {"prior_shape": 1.2, "prior_scale": 0.3}
"""For point estimates. This and the dispersions were chosen among a few by the AUC of splits with seeds 0 and 1."""
SEEDS = range(100, 110)
"""Of the splits that are reported: none of those that anything was chosen on."""


def uclaf_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(data_folder() / "tensors" / "uclaf.npz") as found:
        return (found["UserLocAct"] > 0) * 1.0, (found["UserLoc"] > 0) * 1.0, (found["LocFea"] > 0) * 1.0


def uclaf_relations(
    observed: Any, *, tucker: bool = False, coupled: bool = True, divergence: str = "kl", plain: bool = False
) -> list[Relation]:
    """The thesis's models (6.1) to (6.7): users have a factor in the visits too, places in the features too."""
    links, visits, features = uclaf_data()
    names = (*NAMES, "core") if tucker else NAMES
    relations = [
        Relation(links, TUCKER if tucker else CP, names, observed=observed, divergence=divergence, name="links")
    ]
    if coupled:
        side = {
            name: {"divergence": divergence, "dispersion": 1.0 if plain else phi}
            for name, phi in DISPERSIONS["Tucker" if tucker else "CP"].items()
        }
        place = "js,fs->jf" if tucker else "jr,fr->jf"
        relations.append(Relation(visits, "ir,vr->iv", ("user", "visited"), name="visits", **side["visits"]))
        relations.append(Relation(features, place, ("place", "feature"), name="features", **side["features"]))
    return relations


def uclaf_scores(
    missing: float, runs: int, *, rank: int = 2, inference: str = "map", **model: Any
) -> tuple[float, float, float]:
    """Return the mean AUC, its spread over runs, and the RMSE, of cells hidden at random."""
    links = uclaf_data()[0]
    areas, errors = [], []
    for seed in SEEDS[:runs]:
        known = np.random.default_rng(seed).random(links.shape) >= missing
        prior = PRIOR if inference == "map" and not model.get("plain") else {}
        starts = 3 if rank == 2 else 1
        fit = CoupledFactorization(rank, inference=inference, random_state=seed, n_init=starts, max_iter=200, **prior)
        found = fit.fit(uclaf_relations(known, **model)).predict("links")
        areas.append(roc_auc_score(links[~known], found[~known]))
        errors.append(np.sqrt(np.mean((links - found)[~known] ** 2)))
    return float(np.mean(areas)), float(np.std(areas)), float(np.mean(errors))


def uclaf(runs: int = len(SEEDS)) -> None:
    print(f"UCLAF links, AUC of hidden cells, ±: spread over {runs} splits (thesis), rank 2")
    table = {
        ("CP", "kl", "coupled, prior"): (0.968, 0.937, 0.869),
        ("Tucker", "kl", "coupled, prior"): (0.983, 0.948, 0.908),
        ("CP", "kl", "coupled, likelihood, dispersions 1"): (0.968, 0.937, 0.869),
        ("Tucker", "kl", "coupled, likelihood, dispersions 1"): (0.983, 0.948, 0.908),
        ("CP", "kl", "single, likelihood"): (0.946, 0.867, None),
        ("CP", "kl", "single, prior"): (0.946, 0.867, None),
        ("CP", "euclid", "coupled, likelihood, dispersions 1"): (0.951, 0.915, 0.813),
    }
    for (kind, divergence, how), thesis in table.items():
        options = {"tucker": kind == "Tucker", "coupled": how.startswith("coupled"), "plain": "likelihood" in how}
        cells = []
        for missing, theirs in zip((0.4, 0.8, 0.9), thesis, strict=True):
            area, spread, _ = uclaf_scores(missing, runs, divergence=divergence, **options)
            cells.append(f"{missing:.0%}: {area:.3f} ±{spread:.3f} ({theirs if theirs else '-'})")
        print(f"  {kind} {divergence}, {how}: " + "  ".join(cells), flush=True)
    print(
        "UCLAF completion, RMSE of all hidden cells of the 0/1 tensor (thesis: of cells and values that it does not state)"
    )
    for train, theirs in ((0.3, 0.19), (0.5, 0.18)):
        print(f"  {train:.0%} known: {uclaf_scores(1 - train, runs)[2]:.3f} ({theirs})", flush=True)


def bayes(runs: int = len(SEEDS)) -> None:
    print(f"UCLAF links, variational Bayes, AUC of hidden cells, ±: spread over {runs} splits (thesis, rank 2)")
    for coupled, thesis in ((True, (0.981, 0.962, 0.939)), (False, (0.973, 0.959, 0.917))):
        for rank in (2, 20):
            cells = []
            for missing, theirs in zip((0.6, 0.8, 0.9), thesis, strict=True):
                some = runs if rank == 2 else max(runs // 3, 1)
                area, spread, _ = uclaf_scores(missing, some, rank=rank, inference="vb", coupled=coupled)
                cells.append(f"{missing:.0%}: {area:.3f} ±{spread:.3f} ({theirs if rank == 2 else '-'})")
            print(f"  {'coupled' if coupled else 'single'}, rank {rank}: " + "  ".join(cells), flush=True)
    print("Point estimates by likelihood, coupled, 80% hidden, rank 2 and 20")
    some = max(runs // 3, 1)
    areas = [uclaf_scores(0.8, some, rank=rank, plain=True)[0] for rank in (2, 20)]
    print(f"  {areas[0]:.3f} and {areas[1]:.3f}", flush=True)


def cold(runs: int = len(SEEDS)) -> None:
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
                fit = CoupledFactorization(2, random_state=seed, n_init=3, max_iter=200, **PRIOR)
                relations = uclaf_relations(AllBut(slices={0: users}), tucker=tucker, coupled=coupled)
                found = fit.fit(relations).predict("links")[users]
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


def lastfm_area(seed: int, missing: float, divergence: str, *, coupled: bool, alike: bool, rank: int = 10) -> float:
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
    fit = CoupledFactorization(rank, random_state=seed, max_iter=60, prior_shape=1.1, prior_scale=1.0).fit(relations)
    return float(roc_auc_score(values[hidden], fit.predict("tags", cells[hidden])))


def lastfm(runs: int = 3) -> None:
    print(
        "Last.fm user x artist x tag, alone and coupled with who listens to whom, rank 10: AUC of hidden links against as many"
    )
    print("cells without one, drawn by chance, or drawn with users, artists and tags as frequent as those of the links")
    for alike in (True, False):
        for missing in (0.4, 0.9):
            for divergence in ("kl", "itakura-saito"):
                cells = []
                for coupled in (False, True):
                    areas = [
                        lastfm_area(seed, missing, divergence, coupled=coupled, alike=alike) for seed in SEEDS[:runs]
                    ]
                    cells.append(f"{'coupled' if coupled else 'single'} {np.mean(areas):.3f} ±{np.std(areas):.3f}")
                drawn = "as frequent" if alike else "by chance"
                print(f"  {drawn}, {missing:.0%} hidden, {divergence}: " + "  ".join(cells), flush=True)


def main() -> None:
    parts = {"uclaf": uclaf, "bayes": bayes, "cold": cold, "lastfm": lastfm}
    warnings.simplefilter("ignore", UserWarning)
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()

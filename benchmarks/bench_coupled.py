"""Coupled factorisation on real data beside the thesis (Ermis 2020, chapter 6), and beside TensorLy and pyttb.

Each part is a function; name some to run them alone: ``python bench_coupled.py uclaf bayes cold lastfm dense sparse memory``.
TensorLy and pyttb are not needed to use tacit: install them to run `dense` and `sparse`.
"""

from __future__ import annotations

import importlib
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from real_data import data_folder
from sklearn.metrics import roc_auc_score

from tacit import AllBut, CoupledFactorization, Relation
from tacit.channel import Clear, run
from tacit.factor.coupled.program import Settings, coupled_program

CP, TUCKER = "ir,jr,kr->ijk", "ir,js,kt,rst->ijk"
NAMES = ("user", "place", "activity")
DISPERSIONS = {"visits": 3.0, "features": 30.0}
"""Of UCLAF's side matrices, which would otherwise outweigh the tensor."""
PRIOR = {"prior_shape": 1.2, "prior_scale": 0.3}
"""For point estimates. This and the dispersions were chosen among a few by the AUC of splits with seeds 0 and 1."""
SEEDS = range(100, 110)
"""Of the splits that are reported: none of those that anything was chosen on."""


def peer(name: str) -> Any:
    """Import a package that only benchmarks need, or say so."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"skipped: this part needs {name} (pip install {name})")
        return None


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
            name: {"divergence": divergence, "dispersion": 1.0 if plain else phi} for name, phi in DISPERSIONS.items()
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
        ("CP", "euclid", "coupled, prior"): (0.951, 0.915, 0.813),
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


def lastfm_triples() -> tuple[Any, Any, dict[str, int]]:
    """Return the tag triples and the listening counts by index, over the artists of both."""
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
    return triples, (pairs, plays["weight"].to_numpy()), sizes


def with_zeros(cells: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw as many cells that are not stored as are."""
    drawn = np.unique(np.stack([rng.integers(0, size, 2 * len(cells)) for size in shape], axis=1), axis=0)
    stored = set(map(tuple, cells.tolist()))
    return np.array([cell for cell in rng.permutation(drawn).tolist() if tuple(cell) not in stored][: len(cells)])


def lastfm(runs: int = 3, rank: int = 10) -> None:
    """Part of the links, and as many cells without a link, are known; the rest is predicted."""
    triples, (pairs, weights), sizes = lastfm_triples()
    shape = tuple(sizes.values())
    print(
        "Last.fm user x artist x tag, coupled with log listening counts, AUC of hidden links against as many without, rank 10"
    )
    for missing in (0.4, 0.9):
        for divergence in ("kl", "itakura-saito"):
            cells = []
            for coupled in (False, True):
                areas = []
                for seed in range(runs):
                    rng = np.random.default_rng(seed)
                    zeros = with_zeros(triples, shape, rng)
                    both = np.vstack([triples, zeros])
                    values = np.concatenate([np.ones(len(triples)), np.zeros(len(zeros))])
                    hidden = rng.random(len(both)) < missing
                    known = (both[~hidden], values[~hidden], shape)
                    side = {"divergence": divergence, "observed": "stored"}
                    relations = [Relation(known, CP, ("user", "artist", "tag"), name="tags", **side)]
                    if coupled:
                        listened = with_zeros(pairs, shape[:2], rng)
                        plays = np.concatenate([np.log1p(weights) / np.log1p(weights).mean(), np.zeros(len(listened))])
                        data = (np.vstack([pairs, listened]), plays, shape[:2])
                        relations.append(Relation(data, "ir,jr->ij", ("user", "artist"), name="plays", **side))
                    fit = CoupledFactorization(rank, random_state=seed, max_iter=100, prior_shape=1.1, prior_scale=1.0)
                    found = fit.fit(relations).predict("tags", both[hidden])
                    areas.append(roc_auc_score(values[hidden], found))
                cells.append(f"{'coupled' if coupled else 'single'} {np.mean(areas):.4f} ±{np.std(areas):.4f}")
            print(f"  {missing:.0%} hidden, {divergence}: " + "  ".join(cells), flush=True)


def sweeps_to(
    relations: list[Relation], start: Any, shared: tuple[str, ...], target: float, most: int
) -> tuple[float, int, float]:
    """Return the time, sweeps and cost of a run that goes on until its cost is at the target; compilation excluded."""
    run(coupled_program(relations, start, shared=shared, settings=Settings(max_iter=2, tol=0)), Clear())
    curve = run(
        coupled_program(relations, start, shared=shared, settings=Settings(max_iter=most, tol=0)), Clear()
    ).public["loss_curve"]
    reached = np.flatnonzero(curve <= target)
    count = int(reached[0]) + 1 if len(reached) else most
    begin = time.perf_counter()
    outcome = run(coupled_program(relations, start, shared=shared, settings=Settings(max_iter=count, tol=0)), Clear())
    return time.perf_counter() - begin, count, float(outcome.public["loss"])


def dense(rank: int = 10) -> None:
    tensorly = peer("tensorly")
    if tensorly is None:
        return
    from tensorly.decomposition import coupled_matrix_tensor_3d_factorization

    rng = np.random.default_rng(0)
    a, b, c, v = (rng.random((size, rank)) for size in (200, 200, 200, 300))
    x = np.einsum("ir,jr,kr->ijk", a, b, c)
    y = a @ v.T
    x += 0.1 * x.std() * rng.standard_normal(x.shape)
    y += 0.1 * y.std() * rng.standard_normal(y.shape)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, _, errors = coupled_matrix_tensor_3d_factorization(x, y, rank, n_iter_max=50)
    theirs, target = time.perf_counter() - begin, float(errors[-1]) / 2
    relations = [
        Relation(x, CP, ("a", "b", "c"), divergence="euclid", name="x"),
        Relation(y, "ir,mr->im", ("a", "v"), divergence="euclid", name="y"),
    ]
    start = {name: rng.random((size, rank)) for name, size in (("a", 200), ("b", 200), ("c", 200), ("v", 300))}
    ours, sweeps, cost = sweeps_to(relations, start, ("a",), target * (1 + 1e-4), 300)
    print("Dense 200^3 with 200 x 300, rank 10, to the error of TensorLy's coupled_matrix_tensor_3d_factorization")
    print(
        f"  TensorLy {theirs:.2f} s ({len(errors)} iterations, {target:.6g}); tacit {ours:.2f} s ({sweeps} sweeps, {cost:.6g})"
    )
    print(f"  ratio {theirs / ours:.1f}", flush=True)


def sparse(rank: int = 10, iterations: int = 3) -> None:
    pyttb = peer("pyttb")
    if pyttb is None:
        return
    triples, _, sizes = lastfm_triples()
    shape = tuple(sizes.values())
    rng = np.random.default_rng(0)
    start = {name: rng.random((size, rank)) for name, size in sizes.items()}
    relation = Relation((triples, np.ones(len(triples)), shape), CP, tuple(sizes), name="tags")
    table = pyttb.sptensor(triples.astype(int), np.ones((len(triples), 1)), shape)
    begin = time.perf_counter()
    first = pyttb.ktensor([factor.copy() for factor in start.values()], np.ones(rank))
    found, _, _ = pyttb.cp_apr(
        table, rank, algorithm="mu", init=first, maxiters=iterations, printitn=0, printinneritn=0
    )
    theirs = time.perf_counter() - begin
    factors = [factor.copy() for factor in found.factor_matrices]
    factors[0] = factors[0] * found.weights
    from tacit.factor.coupled.terms import ZerosTerm

    target = ZerosTerm(relation).loss(tuple(factors))
    ours, sweeps, cost = sweeps_to([relation], start, (), target, 60)
    print(
        f"Last.fm triples ({len(triples)}), KL CP, rank 10, to the likelihood of pyttb's cp_apr after {iterations} iterations"
    )
    print(
        f"  pyttb {theirs:.1f} s ({target:.7g}); tacit {ours:.2f} s ({sweeps} sweeps, {cost:.7g}); ratio {theirs / ours:.1f}",
        flush=True,
    )


def memory() -> None:
    print("Memory of a sparse KL CP fit of rank 10, 3 sweeps: growth of a fresh process's peak per stored entry")
    for millions in (0.2, 2.0, 20.0):
        done = subprocess.run(
            [sys.executable, __file__, "child", str(millions)], capture_output=True, text=True, check=False
        )
        print("  " + (done.stdout.strip() or done.stderr.strip()[-300:]), flush=True)


def child(millions: float) -> None:
    rng = np.random.default_rng(0)
    entries, shape = int(millions * 1e6), (20_000, 50_000, 10_000)
    warm = Relation((np.array([[0, 0, 0]]), [1.0], (1, 1, 1)), CP, ("a", "b", "c"))
    CoupledFactorization(10, max_iter=2).fit(warm)
    places = np.unique(rng.integers(0, 2 * 10**13 // 2, entries))
    cells = np.stack(np.unravel_index(places, shape), axis=1).astype(np.int32)
    values = rng.poisson(1.0, len(cells)) + 1.0
    del places
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    CoupledFactorization(10, max_iter=3, tol=0).fit(Relation((cells, values, shape), CP, ("a", "b", "c")))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    taken = f"{millions:g} million: {time.perf_counter() - begin:.1f} s, grew by {grown / 1e6:.0f} MB"
    print(f"{taken}, {grown / len(cells):.0f} bytes an entry (input {cells.itemsize * 3 + 8})")


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        child(float(sys.argv[2]))
        return
    parts = {
        "uclaf": uclaf,
        "bayes": bayes,
        "cold": cold,
        "lastfm": lastfm,
        "dense": dense,
        "sparse": sparse,
        "memory": memory,
    }
    warnings.simplefilter("ignore", UserWarning)
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()

"""Recommenders from interactions: recall and NDCG of held-out users against epsilon, beside peers; speed; parties.

    movielens  ratings of at least 4 in MovieLens 1M; 600 users held out
    anime      any row of the anime log; 3,000 users held out
    others     Gowalla, Steam and Last.fm: from which epsilon on lists are better than popularity
    dense      many clicks on few items, made up: that more budget does not give worse lists
    speed      a private fit of a million interactions beside implicit's ALS, and its memory
    parties    the same fit among five holders with noise in the sum
    year       52 weekly releases for one budget, with new users every week

Users with at least 5 interactions count. The held-out users come first in a permutation of numpy's default_rng(0); a fifth of
each history, at least one item, is to be found, and the rest is given. Recall at 20 is hits over the smaller of 20 and the
number of items to be found. The method's constants and the peers' settings were chosen on validation users, drawn from the
other users. Figures are means over fits. Peers with privacy have noise in floating point and a guarantee on paper only.
"""

from __future__ import annotations

import itertools
import re
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from harness import Part, SkippedError, main, peer
from implicit_peers import alternating, popularity, regression, sketch
from numpy.typing import NDArray
from real_data import data_folder
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.special import expit

from tacit import ImplicitRecommender, PrivateImplicitRecommender
from tacit.channel import Noisy, Plan, run_together
from tacit.data import item_features
from tacit.factor.implicit.interactions import read_interactions
from tacit.factor.implicit.program import SPLIT, implicit_program
from tacit.measure import ranking_scores

Floats = NDArray[np.float64]
LEAST = 5


@dataclass(frozen=True)
class Protocol:
    """Users to fit, histories that are given, items to be found, and public features of the items."""

    rows: Any
    histories: Any
    relevant: list[NDArray[np.int64]]
    features: Floats | None
    delta: float
    titled: Floats | None = None
    """The features, and words of titles."""

    def score(self, lists: Sequence[Sequence[int]]) -> tuple[float, float, float]:
        """Return recall at 20, NDCG at 10 and NDCG at 100."""
        scores = [ranking_scores(lists, self.relevant, k=k) for k in (20, 10, 100)]
        return scores[0].recall, scores[1].ndcg, scores[2].ndcg

    def of_scores(self, scores_of: Callable[[Any], Floats]) -> tuple[float, float, float]:
        """Return the measures of a function from histories to scores."""
        lists: list[Any] = []
        for start in range(0, self.histories.shape[0], 500):
            given = self.histories[start : start + 500]
            found = np.array(scores_of(given), dtype=np.float64)
            entries = given.tocoo()
            found[entries.row, entries.col] = -np.inf
            first = np.argpartition(-found, 100, axis=1)[:, :100]
            order = np.argsort(-np.take_along_axis(found, first, 1), axis=1)
            lists += np.take_along_axis(first, order, 1).tolist()
        return self.score(lists)

    def of_model(self, model: Any) -> tuple[float, float, float]:
        """Return the measures of a fitted recommender."""
        ends, places = self.histories.indptr, self.histories.indices
        return self.score(model.rank([places[a:b] for a, b in itertools.pairwise(ends)], 100))


def divided(frame: pl.DataFrame, held_out: int, delta: float) -> tuple[Protocol, NDArray[Any]]:
    """Return the protocol of a log, and the ids of its items."""
    _, users = np.unique(frame["user"].to_numpy(), return_inverse=True)
    ids, items = np.unique(frame["item"].to_numpy(), return_inverse=True)
    rows = csr_array((np.ones(len(users)), (users, items)))
    rows.sum_duplicates()
    rows.data[:] = 1
    rows = rows[np.diff(rows.indptr) >= LEAST]
    generator = np.random.default_rng(0)
    order = generator.permutation(rows.shape[0])
    relevant, given, ends = [], [], [0]
    for user in order[:held_out]:
        own = rows.indices[rows.indptr[user] : rows.indptr[user + 1]].copy()
        generator.shuffle(own)
        count = max(1, int(0.2 * len(own)))
        relevant.append(own[:count].astype(np.int64))
        given.append(np.sort(own[count:]))
        ends.append(ends[-1] + len(own) - count)
    places = np.concatenate(given)
    histories = csr_array((np.ones(len(places)), places, np.array(ends)), shape=(len(relevant), rows.shape[1]))
    return Protocol(rows[order[held_out:]], histories, relevant, None, delta), ids


def features_of(ids: NDArray[Any], columns: dict[str, dict[Any, Any]], titles: Sequence[str] = ()) -> Floats:
    """Return features of items, from columns by id; `titles` are names of columns with titles."""
    listed = {name: [column.get(item) for item in ids.tolist()] for name, column in columns.items()}
    return item_features(listed, titles=titles)[0]


def movielens_features(ids: NDArray[Any], titles: bool = False) -> Floats:
    """Return genres and years of these films, and on demand the words of their titles."""
    films = pl.read_csv(data_folder() / "movielens1m" / "movies.csv.gz")
    years = [int(re.findall(r"\((\d{4})\)", title)[-1]) for title in films["title"]]
    listed = films["item"].to_list()
    columns = {
        "genre": dict(zip(listed, films["genres"].to_list(), strict=True)),
        "year": dict(zip(listed, years, strict=True)),
    }
    if not titles:
        return features_of(ids, columns)
    columns["title"] = dict(zip(listed, [re.sub(r"\(\d{4}\)", "", title) for title in films["title"]], strict=True))
    return features_of(ids, columns, ["title"])


def movielens_protocol(held_out: int = 600) -> Protocol:
    folder = data_folder() / "movielens1m"
    ratings = pl.read_parquet(folder / "ratings.parquet").filter(pl.col("rating") >= 4)
    protocol, ids = divided(ratings, held_out, 1e-5)
    return replace(protocol, features=movielens_features(ids), titled=movielens_features(ids, titles=True))


def anime_protocol(held_out: int = 3000) -> Protocol:
    folder = data_folder() / "interactions"
    protocol, ids = divided(pl.read_parquet(folder / "anime_kaggle_30pct.parquet"), held_out, 1e-6)
    items = pl.read_parquet(folder / "anime_items.parquet")
    listed = items["item"].to_list()
    columns = {name: dict(zip(listed, items[name].to_list(), strict=True)) for name in ("genre", "type")}
    named = columns | {"name": dict(zip(listed, items["name"].to_list(), strict=True))}
    return replace(protocol, features=features_of(ids, columns), titled=features_of(ids, named, ["name"]))


def show(name: str, found: Sequence[float], seconds: float | None = None) -> None:
    timed = "" if seconds is None else f"   {seconds:6.1f} s"
    print(f"{name:<44} {found[0]:8.4f} {found[1]:8.4f} {found[2]:8.4f}{timed}", flush=True)


def mean_of(measure: Callable[[int], Sequence[float]], repeats: int) -> Sequence[float]:
    found: list[float] = np.mean([measure(repeat) for repeat in range(repeats)], axis=0).tolist()
    return found


def without_privacy(protocol: Protocol, ridge: float, columns: int) -> None:
    print(f"{protocol.rows.shape[0]:,} users, {protocol.rows.nnz:,} interactions, {protocol.rows.shape[1]:,} items")
    print(f"{'no privacy':<44} {'recall20':>8} {'NDCG10':>8} {'NDCG100':>8}")
    counts = np.asarray(protocol.rows.sum(axis=0)).ravel()
    show("popularity", protocol.of_scores(lambda given: np.tile(counts, (given.shape[0], 1))))
    top = np.sort(np.argsort(-counts)[:columns])
    chosen = protocol.rows[:, top]
    learned = regression((chosen.T @ chosen).toarray() + ridge * np.eye(len(top)))

    def ease(given: Any) -> Floats:
        found = np.tile(1e-9 * counts, (given.shape[0], 1))
        found[:, top] += given[:, top] @ learned
        return found

    show(f"EASE as published, ridge {ridge:g}", protocol.of_scores(ease))
    show("ImplicitRecommender()", protocol.of_model(ImplicitRecommender(max_columns=columns).fit(protocol.rows)))
    try:
        model = als(protocol.rows)
    except SkippedError as reason:
        print(f"implicit's ALS: {reason}")
        return
    given = protocol.histories
    users = model.recalculate_user(np.arange(given.shape[0]), given)
    factors = np.asarray(model.item_factors)
    start = iter(range(0, given.shape[0], 500))
    show(
        "implicit's ALS", protocol.of_scores(lambda block: users[(at := next(start)) : at + block.shape[0]] @ factors.T)
    )


def als(rows: Any) -> Any:
    """Fit implicit's ALS with 64 factors and 15 iterations."""
    found = peer("implicit").als.AlternatingLeastSquares(
        64, regularization=10, alpha=20, iterations=15, num_threads=0, random_state=0
    )
    found.fit(rows, show_progress=False)
    return found


def with_privacy(protocol: Protocol, epsilons: Sequence[float], repeats: int, size: int, ridge: float) -> None:
    rows, delta = protocol.rows, protocol.delta
    for epsilon in epsilons:
        print(f"epsilon {epsilon:g}, delta {delta:g}")
        generator = np.random.default_rng(0)
        noise = Plan.for_budget(epsilon, delta).noise_multiplier
        weights = popularity(rows, noise, generator)
        show("  noisy popularity", protocol.of_scores(lambda given, w=weights: np.tile(w, (given.shape[0], 1))))  # type: ignore[misc]

        def ours(repeat: int, features: Any, epsilon: float = epsilon) -> Sequence[float]:
            return protocol.of_model(
                PrivateImplicitRecommender(epsilon=epsilon, delta=delta, features=features).fit(rows)
            )

        def once(repeat: int, epsilon: float = epsilon) -> Sequence[float]:
            return protocol.of_scores(sketch(rows, epsilon, delta, size=size, ridge=ridge, seed=repeat))

        def rounds(repeat: int, features: Any, epsilon: float = epsilon) -> Sequence[float]:
            return protocol.of_scores(alternating(rows, epsilon, delta, features, seed=repeat))

        show("  one second moment, one shrinkage (sketch)", mean_of(once, repeats))
        show("  AM-SSP without features (DPALS)", mean_of(lambda r: rounds(r, None), 1))
        if protocol.features is not None:
            show("  AM-SSP with features", mean_of(lambda r: rounds(r, protocol.features), 1))
        show("  PrivateImplicitRecommender", mean_of(lambda r: ours(r, None), repeats))
        if protocol.features is not None:
            start = time.perf_counter()
            found = mean_of(lambda r: ours(r, protocol.features), repeats)
            show("  PrivateImplicitRecommender, features", found, (time.perf_counter() - start) / repeats)
        if protocol.titled is not None:
            show("  the same with words of titles", mean_of(lambda r: ours(r, protocol.titled), repeats))


def movielens(repeats: int = 3, epsilons: Sequence[float] = (1, 5, 8, 10, 20), held_out: int = 600) -> None:
    protocol = movielens_protocol(held_out)
    without_privacy(protocol, 500, 5000)
    with_privacy(protocol, epsilons, repeats, 600, 20)


def anime(repeats: int = 2, epsilons: Sequence[float] = (1, 5, 20), held_out: int = 3000) -> None:
    protocol = anime_protocol(held_out)
    without_privacy(protocol, 1000, 4000)
    with_privacy(protocol, epsilons, repeats, 1500, 100)


def other_logs() -> dict[str, Callable[[], Protocol]]:
    folder = data_folder()

    def gowalla() -> Protocol:
        """The published split: the same users are fitted and measured, on other items."""
        log = pl.read_parquet(folder / "interactions" / "gowalla.parquet")
        shape = (int(log["user"].max()) + 1, int(log["item"].max()) + 1)  # type: ignore[arg-type]
        train, test = (
            csr_array((np.ones(len(part)), (part["user"].to_numpy(), part["item"].to_numpy())), shape=shape)
            for part in (log.filter(~pl.col("is_test")), log.filter(pl.col("is_test")))
        )
        relevant = [test.indices[a:b].astype(np.int64) for a, b in itertools.pairwise(test.indptr)]
        return Protocol(train, train[:3000], relevant[:3000], None, 1e-6)

    def steam() -> Protocol:
        log = pl.read_parquet(folder / "interactions" / "steam200k.parquet")
        return divided(log, 400, 1e-5)[0]

    def lastfm() -> Protocol:
        log = pl.read_parquet(folder / "tensors" / "lastfm_hetrec_user_artist_weight.parquet")
        names = (
            [name for name in log.columns if "user" in name.lower()],
            [n for n in log.columns if "artist" in n.lower()],
        )
        return divided(log.select(user=names[0][0], item=names[1][0]), 300, 1e-5)[0]

    return {"Gowalla": gowalla, "Steam": steam, "Last.fm": lastfm}


def others(epsilons: Sequence[float] = (1, 5, 20, 100), logs: Sequence[str] = ("Gowalla", "Steam", "Last.fm")) -> None:
    made = other_logs()
    for name in logs:
        protocol = made[name]()
        print(
            f"{name}: {protocol.rows.shape[0]:,} users, {protocol.rows.nnz:,} interactions, {protocol.rows.shape[1]:,} items"
        )
        counts = np.asarray(protocol.rows.sum(axis=0)).ravel()
        show("  popularity, no privacy", protocol.of_scores(lambda given, w=counts: np.tile(w, (given.shape[0], 1))))  # type: ignore[misc]
        show("  ImplicitRecommender()", protocol.of_model(ImplicitRecommender().fit(protocol.rows)))
        for epsilon in epsilons:
            model = PrivateImplicitRecommender(epsilon=epsilon, delta=protocol.delta).fit(protocol.rows)
            show(f"  private, epsilon {epsilon:g}, {model.n_learned_} items", protocol.of_model(model))


def dense_protocol(users: int, items: int, density: float, seed: int, held_out: int = 300) -> Protocol:
    """Return made-up clicks: five tastes, uneven popularities, the given fraction of all pairs."""
    generator = np.random.default_rng(seed)
    tastes = generator.standard_normal((users + held_out, 5)) @ generator.standard_normal((5, items)) / 5**0.5
    logits = 1.5 * tastes + 0.8 * generator.standard_normal(items)
    level = brentq(lambda shift: expit(logits + shift).mean() - density, -20, 20)
    who, what = np.nonzero(generator.random(logits.shape) < expit(logits + level))
    return divided(pl.DataFrame({"user": who, "item": what}), held_out, 1e-6)[0]


def dense(
    repeats: int = 3,
    epsilons: Sequence[float] = (0.3, 1, 3, 10, 20, 100, np.inf),
    shapes: Sequence[tuple[int, int, float]] = (
        (200, 50, 0.2),
        (500, 100, 0.1),
        (500, 100, 0.3),
        (1000, 100, 0.5),
        (2000, 60, 0.3),
        (2000, 200, 0.1),
        (2000, 300, 0.5),
        (5000, 200, 0.2),
    ),
) -> None:
    print(
        f"{'users':>6} {'items':>6} {'density':>8} {'popular':>8} {'EASE':>8} " + " ".join(f"{e:>7g}" for e in epsilons)
    )
    for users, items, density in shapes:
        found = []
        for seed in range(repeats):
            protocol = dense_protocol(users, items, density, seed)
            ends, places = protocol.histories.indptr, protocol.histories.indices
            histories = [places[a:b] for a, b in itertools.pairwise(ends)]

            def recall(model: Any, histories: Any = histories, protocol: Protocol = protocol) -> float:
                return ranking_scores(model.rank(histories, 20), protocol.relevant, k=20).recall

            popular, plain = ImplicitRecommender().fit(protocol.rows), ImplicitRecommender().fit(protocol.rows)
            popular.item_regression_ = np.zeros_like(popular.item_regression_)
            private = [PrivateImplicitRecommender(epsilon=e, delta=1e-6).fit(protocol.rows) for e in epsilons]
            found.append([recall(model) for model in (popular, plain, *private)])
        shown = np.mean(found, axis=0)
        print(
            f"{users:>6} {items:>6} {density:>8} {shown[0]:>8.3f} {shown[1]:>8.3f} "
            + " ".join(f"{value:>7.3f}" for value in shown[2:]),
            flush=True,
        )


def speed(rounds: int = 3, parts: Sequence[float] = (0.25, 0.5, 1.0)) -> None:
    """All ratings of MovieLens 1M as interactions: seconds of the clock and of the processor, and memory by their number."""
    ratings = pl.read_parquet(data_folder() / "movielens1m" / "ratings.parquet")
    _, items = np.unique(ratings["item"].to_numpy(), return_inverse=True)
    rows = csr_array((np.ones(len(items)), (ratings["user"].to_numpy() - 1, items)))
    features = movielens_features(np.unique(ratings["item"].to_numpy()))

    def best(action: Callable[[], object]) -> Floats:
        found = []
        for _ in range(rounds):
            start = time.perf_counter(), time.process_time()
            action()
            found.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        return np.min(found, axis=0)

    fit = PrivateImplicitRecommender(epsilon=5.0, delta=1e-5, features=features).fit
    fit(rows)  # compilation
    for part in parts:
        some = rows[: int(part * rows.shape[0])]
        tracemalloc.start()
        fit(some)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{some.nnz:,} interactions: at most {peak / 1e6:.0f} MB, {peak / some.nnz:.0f} bytes each", flush=True)
    ours = best(lambda: fit(rows))
    print(f"private fit of {rows.nnz:,} interactions: {ours[0]:.2f} s, {ours[1]:.2f} of the processor", flush=True)
    theirs = best(lambda: als(rows))
    print(f"implicit's ALS, 64 factors, 15 iterations: {theirs[0]:.2f} s, {theirs[1]:.2f} of the processor")
    print(
        "ours takes {:.2f} times the time of the clock, and {:.2f} times that of the processor".format(*(ours / theirs))
    )


def parties(holders: int = 5, epsilon: float = 5.0, repeats: int = 3, held_out: int = 600) -> None:
    """Five holders in one process: their sums are added up before the noise, as among parties with a share of it each."""
    protocol = movielens_protocol(held_out)
    parts = np.array_split(np.arange(protocol.rows.shape[0]), holders)
    together, alone = [], []
    for _ in range(repeats):
        programs = [implicit_program(read_interactions(protocol.rows[part]), 2000, protocol.features) for part in parts]
        plan = Plan.for_budget(epsilon, protocol.delta, steps=SPLIT, unit="user")
        outcome = run_together(programs, Noisy(plan))[0].public
        model = ImplicitRecommender()
        model.item_ids_, model.item_weights_ = np.arange(protocol.rows.shape[1]), outcome["weights"]
        model.learned_items_, model.item_regression_ = outcome["items"], outcome["regression"]
        together.append(protocol.of_model(model)[0])
        own = PrivateImplicitRecommender(epsilon=epsilon, delta=protocol.delta, features=protocol.features)
        alone.append(protocol.of_model(own.fit(protocol.rows))[0])
    many, one = float(np.mean(together)), float(np.mean(alone))
    print(f"recall at 20, epsilon {epsilon:g}: {holders} holders {many:.4f}, one {one:.4f}, ratio {many / one:.3f}")


def year(releases: int = 52, epsilon: float = 8.0, held_out: int = 600) -> None:
    """New users every week, and lists from all of them so far."""
    protocol = movielens_protocol(held_out)
    model = PrivateImplicitRecommender(
        epsilon=epsilon, delta=protocol.delta, features=protocol.features, schedule=(releases,)
    )
    for week, part in enumerate(np.array_split(np.arange(protocol.rows.shape[0]), releases), 1):
        model.partial_fit(protocol.rows[part])
        if week in (1, releases // 4 + 1, releases // 2 + 1, releases):
            show(f"week {week} of {releases}, {model.n_learned_} items", protocol.of_model(model))


PARTS = {
    "movielens": Part(movielens, {"repeats": 1, "epsilons": (5,), "held_out": 200}),
    "anime": Part(anime, {"repeats": 1, "epsilons": (5,), "held_out": 500}),
    "others": Part(others, {"epsilons": (5,), "logs": ("Last.fm",)}),
    "dense": Part(dense, {"repeats": 1, "epsilons": (1, np.inf), "shapes": ((500, 100, 0.3),)}),
    "speed": Part(speed, {"rounds": 1, "parts": (1.0,)}),
    "parties": Part(parties, {"repeats": 1}),
    "year": Part(year, {"releases": 8}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

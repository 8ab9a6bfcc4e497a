"""Components with privacy: beside Analyze Gauss and OpenDP; and regression on them.

Loss is |X - X V V'|^2 / |X|^2 on held-out rows, after subtracting the mean for principal components. Analyze Gauss is the
second moment of the rows as they are, with all the budget and Gaussian noise; its components need no positive part. All methods
see the same rows, scaled and clipped by the same public numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars
from bench_svd import read
from harness import Part, main, peer
from real_data import data_folder
from scipy import sparse

from tacit import PCA, SVD, PrincipalComponentRegression, PrivatePCA, PrivatePCR, PrivateSVD, gaussian_noise_multiplier
from tacit.estimators.input import clip_rows

DELTA = 1e-5
TARGET_RANGE = (0.0, 14.0)
"""Of the logarithm of the number of shares: from one to about a million, which needs no look at the data."""
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 20.0)
RUNS = 3
ONE = (0.0, 1.0)
NEWS_RANGES: dict[str, tuple[float, float]] = {
    "n_tokens_title": (0, 25),
    "n_tokens_content": (0, 3000),
    "num_hrefs": (0, 100),
    "num_self_hrefs": (0, 50),
    "num_imgs": (0, 50),
    "num_videos": (0, 25),
    "average_token_length": (0, 10),
    "num_keywords": (0, 10),
    **dict.fromkeys(("kw_min_min", "kw_min_avg", "kw_avg_avg", "kw_max_avg"), (0, 10_000)),
    **dict.fromkeys(("kw_avg_min", "kw_max_min"), (0, 10_000)),
    **dict.fromkeys(("kw_min_max", "kw_max_max", "kw_avg_max"), (0, 1_000_000)),
    **dict.fromkeys(
        ("self_reference_min_shares", "self_reference_max_shares", "self_reference_avg_sharess"), (0, 50_000)
    ),
    **dict.fromkeys(
        (
            *("global_sentiment_polarity", "avg_negative_polarity", "min_negative_polarity", "max_negative_polarity"),
            "title_sentiment_polarity",
        ),
        (-1, 1),
    ),
    **dict.fromkeys(("global_rate_positive_words", "global_rate_negative_words"), (0, 0.2)),
}
"""Round numbers from what the columns are; fractions and flags, which are not listed, lie between 0 and 1."""


def split(rows: Any) -> tuple[Any, Any]:
    order = np.random.default_rng(0).permutation(rows.shape[0])
    test = len(order) // 5
    return rows[order[test:]], rows[order[:test]]


def news() -> tuple[np.ndarray, np.ndarray, tuple[list[float], list[float]]]:
    frame = polars.read_parquet(data_folder() / "regression" / "online_news_popularity_7928x58.parquet")
    names = [name for name in frame.columns if name != "shares"]
    ranges = [NEWS_RANGES.get(name, ONE) for name in names]
    X = frame.select(names).to_numpy().astype(np.float64)
    return X, np.log(frame["shares"].to_numpy().astype(np.float64)), ([r[0] for r in ranges], [r[1] for r in ranges])


def loss(rows: Any, components: np.ndarray, mean: np.ndarray | None) -> float:
    """Return the fraction of the rows' squared length (about `mean`) that the components leave."""
    squares = float(np.sum(np.square(rows.data if sparse.issparse(rows) else rows)))
    scores = rows @ components.T
    if mean is not None:
        sums = np.asarray(rows.sum(axis=0)).ravel()
        squares += rows.shape[0] * float(mean @ mean) - 2 * float(mean @ sums)
        scores = scores - mean @ components.T
    return 1 - float(np.sum(scores**2)) / squares


def analyze_gauss(rows: Any, rank: int, epsilon: float, random: np.random.Generator) -> np.ndarray:
    """Return the leading eigenvectors of the second moment of the rows, which have norm at most 1, plus noise."""
    second = rows.T @ rows
    second = second.toarray() if sparse.issparse(second) else second
    noise = np.triu(random.standard_normal(second.shape)) * gaussian_noise_multiplier(epsilon, DELTA)
    # one triangle gets independent noise; off the diagonal an entry counts twice in the norm, so its noise may be less
    noise = np.where(np.eye(len(second), dtype=bool), noise, noise / np.sqrt(2))
    noisy = second + noise + np.triu(noise, 1).T
    from scipy.linalg import eigh

    return eigh(noisy, subset_by_index=(len(noisy) - rank, len(noisy) - 1))[1].T[::-1]


def opendp_components(rows: np.ndarray, rank: int, epsilon: float) -> np.ndarray:
    dp = peer("opendp.prelude", "opendp")
    dp.enable_features("contrib", "honest-but-curious", "floating-point", "idealized-numerics")
    model = dp.sklearn.decomposition.PCA(
        epsilon=epsilon, row_norm=1.0, n_samples=len(rows), n_features=rows.shape[1], n_components=rank
    )
    return np.asarray(model.fit(rows).components_)


def average(losses: Sequence[float]) -> float:
    return float(np.mean(losses))


def compare(name: str, X: Any, rank: int, epsilons: Sequence[float], runs: int, *, non_negative: bool = True) -> None:
    """Print the losses of singular vectors and principal components; the rows have norm at most 1."""
    train, test = split(X)
    random = np.random.default_rng(0)
    mean = np.asarray(train.mean(axis=0)).ravel()
    settings = {"non_negative": non_negative}
    print(f"{name}, k = {rank}: held-out loss at epsilon" + "".join(f"{epsilon:>9g}" for epsilon in epsilons))
    gauss = (
        {e: [analyze_gauss(train, rank, e, random) for _ in range(runs)] for e in epsilons}
        if X.shape[1] <= 2000
        else {}
    )
    for kind, plain, private, centre in (("svd", SVD, PrivateSVD, None), ("pca", PCA, PrivatePCA, mean)):
        base = loss(test, plain(rank).fit(train).components_, centre)
        print(f"{kind + ', without privacy':<40}" + f"{base:>9.4f}" * len(epsilons))
        fits = [
            average(
                [
                    loss(test, private(rank, epsilon=e, delta=DELTA, **settings).fit(train).components_, centre)
                    for _ in range(runs)
                ]
            )
            for e in epsilons
        ]
        print(f"{kind + ', tacit':<40}" + "".join(f"{one:>9.4f}" for one in fits), flush=True)
        if gauss:
            theirs = [average([loss(test, V, centre) for V in gauss[e]]) for e in epsilons]
            print(f"{kind + ', Analyze Gauss':<40}" + "".join(f"{one:>9.4f}" for one in theirs), flush=True)


def losses(
    sets: Sequence[str] = ("cbcl", "20newsgroups", "news"), epsilons: Sequence[float] = EPSILONS, runs: int = RUNS
) -> None:
    for name in sets:
        if name == "news":
            X, _, limits = news()
            X = PrivatePCA(feature_range=limits).scaled(X)
            compare("online news, columns scaled by public ranges", X, 10, epsilons, runs, non_negative=False)
        else:
            X = read(name)
            compare(
                name,
                clip_rows(X / np.linalg.norm(X, axis=1, keepdims=True) if name == "cbcl" else X, 1.0),
                20,
                epsilons,
                runs,
            )


def others(epsilons: Sequence[float] = EPSILONS, rank: int = 5, columns: int = 20) -> None:
    """OpenDP's PCA wants the number of rows, and its time grows steeply with the columns: 0.6 s for 5, 7 s for 20."""
    X, _, (low, high) = news()
    X = PrivatePCA(feature_range=(low[:columns], high[:columns])).scaled(X[:, :columns])
    train, test = split(X)
    mean = train.mean(axis=0)
    print(f"online news, first {columns} columns, k = {rank}, held-out loss" + "".join(f"{e:>9g}" for e in epsilons))
    print(
        f"{'pca, without privacy':<40}" + f"{loss(test, PCA(rank).fit(train).components_, mean):>9.4f}" * len(epsilons)
    )
    own = [
        [loss(test, PrivatePCA(rank, epsilon=e, delta=DELTA).fit(train).components_, mean) for _ in range(RUNS)]
        for e in epsilons
    ]
    print(f"{'pca, tacit':<40}" + "".join(f"{average(one):>9.4f}" for one in own), flush=True)
    theirs = [loss(test, opendp_components(train, rank, e), mean) for e in epsilons]
    print(f"{'pca, OpenDP (pure epsilon, n known)':<40}" + "".join(f"{one:>9.4f}" for one in theirs), flush=True)


def regression(epsilons: Sequence[float] = EPSILONS, rank: int = 10, runs: int = RUNS) -> None:
    """Principal component regression of an article's popularity: held-out error beside predictions that are the same for all."""
    X, y, limits = news()
    (train, test), (targets, answers) = split(X), split(y)
    low, high = TARGET_RANGE
    middle = (low + high) / 2

    def rmse(predicted: Any) -> float:
        return float(np.sqrt(np.mean((answers - predicted) ** 2)))

    scaled = PrivatePCA(feature_range=limits)
    plain = PrincipalComponentRegression(rank).fit(scaled.scaled(train), targets).predict(scaled.scaled(test))
    random = np.random.default_rng(0)
    lines = {
        "PrivatePCR": [
            [
                rmse(
                    PrivatePCR(rank, epsilon=e, delta=DELTA, feature_range=limits, target_range=TARGET_RANGE)
                    .fit(train, targets)
                    .predict(test)
                )
                for _ in range(runs)
            ]
            for e in epsilons
        ],
        # the sum of the targets' differences to the middle, and the number of rows, each with half of the budget
        "noisy mean": [[rmse(_noisy_mean(targets, middle, e, random)) for _ in range(100)] for e in epsilons],
        "without privacy": [[rmse(plain)] for _ in epsilons],
        "the mean target, without privacy": [[rmse(targets.mean())] for _ in epsilons],
        "the middle of the range": [[rmse(middle)] for _ in epsilons],
    }
    print(f"online news, log shares, k = {rank}, held-out RMSE at" + "".join(f"{epsilon:>9g}" for epsilon in epsilons))
    for name, errors in lines.items():
        print(f"{name:<45}" + "".join(f"{average(one):>9.4f}" for one in errors), flush=True)


def _noisy_mean(targets: np.ndarray, middle: float, epsilon: float, random: np.random.Generator) -> float:
    low, high = TARGET_RANGE
    half = (high - low) / 2
    away = np.clip(targets, low, high) - middle
    noise = gaussian_noise_multiplier(epsilon, DELTA) * np.sqrt(2) * random.standard_normal(2)
    total, count = away.sum() + half * noise[0], max(len(away) + noise[1], 1.0)
    return float(np.clip(middle + total / count, low, high))


PARTS = {
    "losses": Part(losses, quick={"sets": ("news",), "epsilons": (1.0,), "runs": 1}),
    "regression": Part(regression, quick={"epsilons": (1.0,), "runs": 1}),
    "others": Part(others, quick={"epsilons": (1.0,), "rank": 2, "columns": 5}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

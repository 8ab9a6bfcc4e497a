"""What a private dictionary costs: faces and topics, every method beside the fit without privacy, and the time noise takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from harness import Part, main
from real_data import data_folder

from tacit import NMF, PrivateMoments, PrivateNMF, gaussian_noise_multiplier
from tacit.data import TermCounts, contaminate, read_matrix, tfidf
from tacit.estimators.input import clip_rows
from tacit.measure import held_out_error, match_topics, topic_coherence

DELTA = 1e-5
EPSILONS = (1.0, 3.0, 10.0)
FRONTIER = (0.3, 1.0, 3.0, 10.0, 20.0)
RUNS = 3
FACES: dict[str, dict[str, object]] = {
    "moments (default)": {},
    "rounds, 2, free start": {"method": "rounds", "rounds": 2},
    "rounds, 10, free start": {"method": "rounds", "rounds": 10},
    "rounds, 50, free start": {"method": "rounds", "rounds": 50},
    "rounds, 10, mini-batches at rate 0.2": {"method": "rounds", "rounds": 10, "sampling_rate": 0.2},
    "rounds, 2, start from noisy moments": {"method": "rounds", "rounds": 2, "init": "noisy"},
    "published, 100 rounds (NO guarantee)": {"method": "published", "rounds": 100},
}


def averaged(measure: Callable[[], float], runs: int) -> float:
    return float(np.mean([measure() for _ in range(runs)]))


def signed_subspace_error(train: np.ndarray, test: np.ndarray, epsilon: float, size: int) -> float:
    """Error of the top eigenvectors of one noisy second moment, which are not a non-negative dictionary."""
    moments = PrivateMoments(epsilon=epsilon, delta=DELTA).fit(train)
    top = np.linalg.eigh(moments.second_moment_)[1][:, -size:]
    return 0.5 * float(np.mean(((test - test @ top @ top.T) ** 2).sum(axis=1)))


def faces(epsilons: Sequence[float] = FRONTIER, runs: int = RUNS, methods: Sequence[str] = tuple(FACES)) -> None:
    X = np.load(data_folder() / "faces" / "cbcl_19x19.npz")["X"].astype(float)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(1).permutation(len(X))
    train, test = X[order[:2000]], X[order[2000:]]
    print(
        f"CBCL faces, k = 10, delta {DELTA:g}, mean of {runs} fits: (1/2) mean |x - hT|^2 on held-out rows, at total epsilon"
    )
    print(f"{'':<40}" + "".join(f"{epsilon:>9g}" for epsilon in epsilons))
    plain = held_out_error(test, NMF(10, random_state=0).fit(train).components_)
    levels = {
        "without privacy": plain,
        "mean face": held_out_error(test, train.mean(0)[None]),
        "constant": held_out_error(test, np.ones((1, test.shape[1]))),
    }
    for name, level in levels.items():
        print(f"{name:<40}" + f"{level:>9.4f}" * len(epsilons))
    signed = [averaged(lambda e=e: signed_subspace_error(train, test, e, 10), runs) for e in epsilons]
    print(f"{'one noisy second moment, signed':<40}" + "".join(f"{error:>9.4f}" for error in signed))
    for name, settings in ((name, FACES[name]) for name in methods):
        errors = [
            averaged(
                lambda e=e, s=settings: held_out_error(
                    test, PrivateNMF(10, epsilon=e, delta=DELTA, **s).fit(train).components_
                ),
                runs,
            )
            for e in epsilons
        ]
        print(f"{name:<40}" + "".join(f"{error:>9.4f}" for error in errors))


WIDE = {"Yale B, 32 x 32": "yaleb_32x32", "CBCL, 19 x 19": "cbcl_19x19"}
WIDE_EPSILONS = (0.3, 1.0, 3.0, 10.0)
WIDE_ROWS = (100, 300, 1000, None)
HELD_OUT_FACES = 400


def noisy_mean(train: np.ndarray, epsilon: float, random: np.random.Generator) -> np.ndarray:
    """Return the column sums released with the whole budget, clipped at zero; the scale of a single row is irrelevant."""
    noise = gaussian_noise_multiplier(epsilon, DELTA) * random.standard_normal(train.shape[1])
    return np.maximum(train.sum(axis=0) + noise, 0.0)[None]


def wide(
    sets: Sequence[str] = tuple(WIDE),
    sizes: Sequence[int | None] = WIDE_ROWS,
    epsilons: Sequence[float] = WIDE_EPSILONS,
    components: Sequence[int] = (10, 50),
    runs: Sequence[int] = (RUNS, 1),
    picture: str = "",
) -> None:
    """From a hundred rows to all: the default beside a noisy mean, the constant, which costs nothing, and no privacy."""
    found: dict[tuple[str, int, int], dict[str, list[float]]] = {}
    for name in sets:
        X = np.load(data_folder() / "faces" / f"{WIDE[name]}.npz")["X"].astype(float)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        X = X[np.random.default_rng(1).permutation(len(X))]
        test, rest = X[:HELD_OUT_FACES], X[HELD_OUT_FACES:]
        constant = held_out_error(test, np.full((1, X.shape[1]), 0.01))
        print(
            f"{name}, delta {DELTA:g}, mean of {', '.join(map(str, runs))} fits: "
            f"(1/2) mean |x - hT|^2 on {len(test)} held-out rows, at epsilon"
        )
        print(f"{'rows':>6}{'k':>4}  {'method':<22}" + "".join(f"{epsilon:>9g}" for epsilon in epsilons))
        for size, (k, fits_each) in product(sizes, zip(components, runs, strict=False)):
            train = rest[:size]
            plain = held_out_error(test, NMF(k, random_state=0).fit(train).components_)
            means, fits = [], []
            for epsilon in epsilons:
                random = np.random.default_rng(0)
                draws = [held_out_error(test, noisy_mean(train, epsilon, random)) for _ in range(5)]
                means.append(float(np.mean(draws)))
                models = [PrivateNMF(k, epsilon=epsilon, delta=DELTA).fit(train) for _ in range(fits_each)]
                fits.append(float(np.mean([held_out_error(test, model.components_) for model in models])))
            lines = {
                "constant": [constant] * len(epsilons),
                "noisy mean": means,
                "PrivateNMF (default)": fits,
                "without privacy": [plain] * len(epsilons),
            }
            found[name, len(train), k] = lines
            for method, errors in lines.items():
                print(
                    f"{len(train):>6}{k:>4}  {method:<22}" + "".join(f"{error:>9.4f}" for error in errors), flush=True
                )
    if picture:
        draw_wide(found, epsilons, picture)


def draw_wide(
    found: dict[tuple[str, int, int], dict[str, list[float]]], epsilons: Sequence[float], picture: str
) -> None:
    """Draw the curves of `wide`, one small figure per data set, number of components and number of rows."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names, sizes, ranks = (list(dict.fromkeys(key[place] for key in found)) for place in range(3))
    rows = [(name, k) for name in names for k in ranks]
    figure = Figure(figsize=(10, 2.2 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 4, sharex=True, sharey="row", squeeze=False)
    styles = {"constant": ":", "noisy mean": "--", "PrivateNMF (default)": "-", "without privacy": "-."}
    for place, (name, k) in enumerate(rows):
        for column, size in enumerate(size for size in sizes if (name, size, k) in found):
            axis = axes[place, column]
            for method, errors in found[name, size, k].items():
                axis.plot(epsilons, errors, styles[method], label=method, linewidth=2 if "default" in method else 1)
            axis.set_xscale("log")
            axis.set_title(f"{name}, k = {k}, {size:,} rows", fontsize=8)
            axis.spines[["top", "right"]].set_visible(False)
        axes[place, 0].set_ylabel("error, held out", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("epsilon", fontsize=8)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8
    )
    with rc_context({"svg.fonttype": "none"}):  # text as text: a smaller file
        figure.savefig(picture, metadata={"Date": None})


def topics(epsilons: Sequence[float] = EPSILONS) -> None:
    matrix = read_matrix(data_folder() / "text" / "20newsgroups_bydate_vocab10000.npz")
    counts = TermCounts(matrix.X, matrix.names, vocabulary_is_public=True)
    X = tfidf(counts, idf="uniform").X
    plain = NMF(20, random_state=0).fit(X)
    coherence = topic_coherence(plain.components_, counts.counts).mean()
    print(f"20 newsgroups, K = 20, uniform term weights, delta {DELTA:g}: without privacy c_npmi {coherence:.3f}")
    print(f"{'':<40}{'epsilon':>9}{'c_npmi':>9}{'similarity':>12}")
    for name, settings in {
        "moments (default)": {},
        "published, 20 rounds (NO guarantee)": {"method": "published", "rounds": 20},
    }.items():
        for epsilon in epsilons:
            model = PrivateNMF(20, epsilon=epsilon, delta=DELTA, **settings).fit(X)
            found = topic_coherence(model.components_, counts.counts).mean()
            similar = match_topics(plain.components_, model.components_).mean_similarity
            print(f"{name:<40}{epsilon:>9g}{found:>9.3f}{similar:>12.3f}")


CORPORA = {
    "Reuters": "reuters21578_8293x18933.npz",
    "TDT2": "tdt2_9394x36771.npz",
    "BBC": "bbc_2225x9635.npz",
    "20 newsgroups": "20newsgroups_18846x26214.npz",
    "20 newsgroups, no stop words": "20newsgroups_bydate_vocab10000.npz",
}


def documents(
    sizes: Sequence[int] = (1000, 2000, 4000, 8000),
    epsilons: Sequence[float] = EPSILONS,
    corpora: Sequence[str] = tuple(CORPORA),
    runs: int = RUNS,
) -> None:
    """From how many documents on topics are usable: coherence beside the fit without privacy, K = 10, 5,000 frequent terms.

    A fit is also described by the fraction of different words among the ten of each topic.
    """
    print(
        f"K = 10, delta {DELTA:g}, {runs} fits: mean (and standard deviation) of the fraction of the fit without privacy"
    )
    print(
        f"{'corpus':<30}{'documents':>10}{'epsilon':>9}{'without privacy':>17}{'c_npmi':>9}{'fraction':>16}"
        f"{'different words':>17}{'without privacy':>17}"
    )
    for name in corpora:
        counts = read_matrix(data_folder() / "text" / CORPORA[name]).X
        frequent = np.argsort(-np.asarray((counts > 0).sum(axis=0)).ravel())[:5000]
        counts = counts[:, np.sort(frequent)]
        order = np.random.default_rng(0).permutation(counts.shape[0])
        for size in sorted({min(size, len(order)) for size in sizes}):
            part = TermCounts(counts[order[:size]], tuple(map(str, range(counts.shape[1]))), vocabulary_is_public=True)
            X = tfidf(part, idf="uniform").X
            T = NMF(10, random_state=0, max_iter=100).fit(X).components_
            plain = topic_coherence(T, counts).mean()
            for epsilon in epsilons:
                fits = [PrivateNMF(10, epsilon=epsilon, delta=DELTA).fit(X).components_ for _ in range(runs)]
                own = [topic_coherence(fit, counts).mean() for fit in fits]
                fraction = float(np.mean(own) / plain)
                print(
                    f"{name:<30}{size:>10}{epsilon:>9g}{plain:>17.3f}{np.mean(own):>9.3f}{fraction:>10.0%}"
                    f" ({np.std(own) / plain:.0%})"
                    f"{np.mean([different_words(fit) for fit in fits]):>17.2f}{different_words(T):>17.2f}",
                    flush=True,
                )


def different_words(components: np.ndarray, n_words: int = 10) -> float:
    """Return the number of different words among the first of all topics, over the largest possible number."""
    first = np.argsort(-components, axis=1)[:, :n_words]
    return len(np.unique(first)) / first.size


SPOILT = {"Yale B": ("yaleb_32x32", 38, 0.2), "CBCL": ("cbcl_19x19", 49, 0.15)}


def contaminated(epsilons: Sequence[float] = EPSILONS, sets: Sequence[str] = tuple(SPOILT), runs: int = RUNS) -> None:
    """Faces of which a tenth is contaminated, with and without `outliers`: the error of the dictionary on the clean images."""
    for name in sets:
        file, k, threshold = SPOILT[name]
        clean = np.load(data_folder() / "faces" / f"{file}.npz")["X"].astype(float)
        clean /= clean.max()
        spoilt = contaminate(clean, random_state=0).X
        length = 0.5 * clean.shape[1] ** 0.5  # that of an image of pixels of 0.5
        clipped = clip_rows(spoilt, length)
        print(
            f"{name}, k = {k}, row norm {length:.2f}, delta {DELTA:g}, {runs} fits: (1/2) mean |x - hT|^2, clean images"
        )
        print(f"  clipped rows: {np.mean(np.linalg.norm(spoilt, axis=1) > length):.0%}")
        print(f"  {'the mean alone':<40}{held_out_error(clean, clipped.mean(axis=0)[None]):>9.3f}")
        for label, outliers in {"all entries": None, f"outliers={threshold:g}": threshold}.items():
            plain = held_out_error(clean, NMF(k, outliers=outliers, random_state=0).fit(clipped).components_)
            print(f"  {label + ', without privacy':<40}{plain:>9.3f}", flush=True)
            for epsilon in epsilons:
                private = {"epsilon": epsilon, "delta": DELTA, "row_norm": length, "outliers": outliers}
                errors = [held_out_error(clean, PrivateNMF(k, **private).fit(spoilt).components_) for _ in range(runs)]
                print(
                    f"  {f'{label}, epsilon {epsilon:g}':<40}{np.mean(errors):>9.3f} ({np.std(errors):.3f})", flush=True
                )


def overhead(repeats: int = 5) -> None:
    """The same program, with the same rounds, over a noisy channel and over a clear one."""
    from tacit.channel import Clear, Noisy, Plan, Split, Step, run
    from tacit.factor.nmf.saha_imtiaz import random_start, rounds_program

    X = np.load(data_folder() / "faces" / "cbcl_19x19.npz")["X"].astype(float)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    start = random_start(10, X.shape[1], np.random.default_rng(0))
    split = Split(rounds=Step(10))
    settings = {"row_norm": 1.0, "outliers": None, "step": split["rounds"]}
    plan = Plan.for_budget(3.0, DELTA, steps=split)
    taken: dict[str, float] = {}
    for name, channel in {"clear": Clear, "noisy": lambda: Noisy(plan)}.items():
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            run(rounds_program(X, start, **settings), channel())
            seconds.append(time.perf_counter() - begin)
        taken[name] = min(seconds)
    print(
        f"private overhead, 10 rounds on CBCL: {taken['noisy'] / taken['clear']:.3f} times the same rounds in the clear"
    )


PARTS = {
    "faces": Part(
        faces, quick={"epsilons": (3.0,), "runs": 1, "methods": ("moments (default)", "rounds, 2, free start")}
    ),
    "wide": Part(
        wide, quick={"sizes": (100,), "epsilons": (3.0,), "components": (10,), "runs": (1,), "sets": ("CBCL, 19 x 19",)}
    ),
    "overhead": Part(overhead, quick={"repeats": 1}),
    "topics": Part(topics, quick={"epsilons": (3.0,)}),
    "documents": Part(documents, quick={"sizes": (1000,), "epsilons": (3.0,), "corpora": ("Reuters",), "runs": 1}),
    "contaminated": Part(contaminated, quick={"epsilons": (3.0,), "sets": ("CBCL",), "runs": 1}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

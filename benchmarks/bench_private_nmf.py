"""What a private dictionary costs: faces and topics, every method beside the fit without privacy, and the time noise takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from harness import Part, main
from real_data import data_folder

from tacit import NMF, PrivateMoments, PrivateNMF
from tacit.data import TermCounts, contaminate, read_matrix, tfidf
from tacit.measure import held_out_error, match_topics, topic_coherence

DELTA = 1e-5
EPSILONS = (1.0, 3.0, 10.0)
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


def faces(epsilons: Sequence[float] = EPSILONS, runs: int = RUNS, methods: Sequence[str] = tuple(FACES)) -> None:
    X = np.load(data_folder() / "faces" / "cbcl_19x19.npz")["X"].astype(float)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(1).permutation(len(X))
    train, test = X[order[:2000]], X[order[2000:]]
    print(
        f"CBCL faces, k = 10, delta {DELTA:g}, mean of {runs} fits: (1/2) mean |x - hT|^2 on held-out rows, at total epsilon"
    )
    print(f"{'':<40}" + "".join(f"{epsilon:>9g}" for epsilon in epsilons))
    plain = held_out_error(test, NMF(10, random_state=0).fit(train).components_)
    for name, dictionary in {"without privacy": plain, "mean face": held_out_error(test, train.mean(0)[None])}.items():
        print(f"{name:<40}" + f"{dictionary:>9.4f}" * len(epsilons))
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


def contaminated_faces(sweeps: int = 60) -> None:
    """The clean images' error by the paper's eq. 15 (weights from the contaminated fit), and with the best weights."""
    print("contaminated faces (10% of the images, 70% of their pixels, U[-1,1]): error on the clean images")
    for name, components, threshold in (("yaleb_32x32", 38, 0.2), ("cbcl_19x19", 49, 0.15)):
        X = np.load(data_folder() / "faces" / f"{name}.npz")["X"] / 255.0
        spoilt = contaminate(X, random_state=0).X
        found: dict[str, tuple[float, float]] = {}
        for kind, outliers in {"plain": None, "robust": threshold}.items():
            model = NMF(components, outliers=outliers, max_iter=sweeps, random_state=0).fit(spoilt)
            fitted = model.inverse_transform(model.transform(spoilt))
            found[kind] = (0.5 * float(np.mean(((X - fitted) ** 2).sum(axis=1))), held_out_error(X, model.components_))
        for place, measure in enumerate(
            ("eq. 15: weights from the contaminated fit", "best weights for the dictionary")
        ):
            plain, robust = found["plain"][place], found["robust"][place]
            print(
                f"{name}, k = {components}, {measure:<42} plain {plain:.4f}, robust {robust:.4f}, {robust / plain:.3f}"
            )


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
    "contaminated": Part(contaminated_faces, quick={"sweeps": 2}),
    "overhead": Part(overhead, quick={"repeats": 1}),
    "topics": Part(topics, quick={"epsilons": (3.0,)}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

"""Parties as real processes on this machine: the masked sum, the joint model against each party's own, noise in the sum.

Peers run in the same run.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Part, main
from sklearn.base import clone

from tacit import NMF, PrivateNMF, PrivateRecommender
from tacit.channel import Clear, Outcome, Sum, run
from tacit.parties import run_local

ROWS, COLUMNS, REPEATS = 20, 10_000, 15


class Totals:
    """Ask for the same total again and again, masked or as plain bytes; keep the seconds of each."""

    def __init__(self, masked: bool = True, columns: int = COLUMNS, repeats: int = REPEATS) -> None:
        self.masked, self.columns, self.repeats = masked, columns, repeats

    def fit(self, X: Any, y: Any = None) -> Totals:
        """Sum, and forget the total."""
        self.guarantee_ = None
        if not self.masked:
            from tacit.channel import masked

            masked.Masks.hide = lambda self, elements, ring, number, **_: elements  # type: ignore[method-assign]
        run(self._program(np.random.default_rng(0).normal(size=(ROWS, self.columns))), Clear())
        return self

    def _program(self, term: Any) -> Any:
        self.seconds_ = []
        for _ in range(self.repeats):
            start = time.perf_counter()
            yield Sum(x=term)
            self.seconds_.append(time.perf_counter() - start)
        return Outcome({})


def mpyc_party(columns: int) -> None:
    """One party of MPyC's own secure sum of the same array, over its own sockets."""
    from mpyc.runtime import mpc

    fixed = mpc.SecFxp(64, 32)

    async def sums() -> None:
        await mpc.start()
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            shares = mpc.input(fixed.array(np.random.default_rng(mpc.pid).normal(size=ROWS * columns)))
            total = shares[0]
            for share in shares[1:]:
                total = mpc.np_add(total, share)
            await mpc.output(total)
            seconds.append(time.perf_counter() - start)
        if mpc.pid == 0:
            print(min(seconds), file=sys.stderr)
        await mpc.shutdown()

    mpc.run(sums())


def sums(columns: int = COLUMNS, repeats: int = REPEATS) -> None:
    rows = [np.ones((2, 2))] * 3
    masked = run_local(Totals(True, columns, repeats), rows)
    plain = run_local(Totals(False, columns, repeats), rows)
    ours, bare = (statistics.median(model[0].seconds_) for model in (masked, plain))
    words = masked[0].traffic_["sent"] / (repeats * ROWS * columns * 8)
    peer = subprocess.run(
        [sys.executable, __file__, "mpyc-party", str(columns), "-M3"],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    theirs = float(peer.stderr.strip().splitlines()[-1])
    print(f"masked sum of {ROWS} x {columns}, 3 parties: {ours:.4f} s; without masks {bare:.4f} s; MPyC {theirs:.3f} s")
    print(f"  masked / without masks {ours / bare:.2f} (asked at most 3); MPyC / masked {theirs / ours:.1f} (asked 10)")
    print(
        f"  sent by a party: {words:.3f} words per number (at most 1 masked + 1 of the total; asked within 5% of that)"
    )


def enron_rows() -> tuple[Any, Any, list[str]]:
    from real_data import data_folder
    from scipy.sparse import load_npz

    path = data_folder() / "text" / "enron_6mailboxes_vocab8000.npz"
    counts = load_npz(path).tocsr().astype(np.float64)
    about = np.load(path, allow_pickle=False)
    kept = np.asarray(counts.sum(axis=1)).ravel() > 0
    from sklearn.feature_extraction.text import TfidfTransformer

    # inverse document frequencies of all parties would be one more sum; here all terms weigh the same
    rows = TfidfTransformer(use_idf=False, sublinear_tf=True).fit_transform(counts[kept])
    return rows.tocsr(), about["owner"][kept], [str(name) for name in about["owner_names"]]


def fit_in_step(settings: dict[str, Any], part: Any, ready: Any, seconds: Any) -> None:
    """Fit one party's rows by themselves, at the same time as the others and on the same cores."""
    import numba
    from threadpoolctl import threadpool_limits

    numba.set_num_threads(1)
    with threadpool_limits(1):
        NMF(**{**settings, "max_iter": 2}).fit(part)
        ready.wait()
        start = time.perf_counter()
        NMF(**settings).fit(part)
        seconds.put(time.perf_counter() - start)


def without_a_word(settings: dict[str, Any], parts: list[Any]) -> float:
    """Return the seconds of the slowest of as many processes as there are parties, each fitting its own rows."""
    context = multiprocessing.get_context("spawn")
    ready, seconds = context.Barrier(len(parts)), context.Queue()
    processes = [context.Process(target=fit_in_step, args=(settings, part, ready, seconds)) for part in parts]
    for process in processes:
        process.start()
    found = [seconds.get() for _ in parts]
    for process in processes:
        process.join()
    return max(found)


def enron(sweeps: int = 40, repeats: int = 5, word_bits: int = 128) -> None:
    from tacit.measure import held_out_error

    X, owner, names = enron_rows()
    held = np.random.default_rng(0).random(X.shape[0]) < 0.2
    parts = [X[(owner == place) & ~held] for place in range(len(names))]
    settings: dict[str, Any] = {"n_components": 14, "init": "random", "max_iter": sweeps, "tol": 0}
    NMF(**settings).fit(X[:500])  # compile before anything is timed
    centralised, processors, slowest_ones = [], [], []
    for _ in range(repeats):  # by turns: the speed of a shared machine changes within seconds
        start, processor = time.perf_counter(), time.process_time()
        central = NMF(**settings).fit(X[~held])
        centralised.append(time.perf_counter() - start)
        processors.append(time.process_time() - processor)
        start = time.perf_counter()
        models = run_local(NMF(**settings), parts, names=names, word_bits=word_bits)
        whole = time.perf_counter() - start
        traffic = [model.traffic_ for model in models]
        slowest_ones.append(max(part["fitting"] for part in traffic))
    alone, alone_processor = statistics.median(centralised), statistics.median(processors)
    slowest = statistics.median(slowest_ones)
    error = np.linalg.norm(models[0].components_ - central.components_) / np.linalg.norm(central.components_)
    print(f"Enron, 6 parties, k = 14, {sweeps} sweeps: distance to the centralised dictionary {error:.1e} (asked 1e-8)")
    connecting = max(part["connecting"] for part in traffic)
    rounds, waiting = traffic[0]["rounds"], [part["waiting"] for part in traffic]
    ratios = [ours / theirs for ours, theirs in zip(slowest_ones, centralised, strict=True)]
    print(
        f"  words of {word_bits} bits, medians of {repeats} runs: centralised {alone:.2f} s; slowest party's rounds "
        f"{slowest:.2f} s, ratio {slowest / alone:.2f} (asked at most 2.5; single runs {min(ratios):.2f} to {max(ratios):.2f}), "
        f"{1e3 * slowest / rounds:.0f} ms a round, of which {min(waiting):.1f} to {max(waiting):.1f} s waiting"
    )
    apart = without_a_word(settings, parts)
    print(
        f"  as many processes, each fitting its own rows without a word to the others: {apart:.1f} s, "
        f"{apart / alone:.2f} times the centralised fit; communication makes it {slowest / apart:.2f} times as long"
    )
    opened = max(part["seconds"] - part["connecting"] - part["fitting"] for part in traffic)
    print(
        f"  starting processes {whole - slowest_ones[-1] - connecting - opened:.1f} s, "
        f"certificates and connections {connecting:.1f} s, opening and closing ports and checkpoints {opened:.2f} s"
    )
    used = sum(part["processor"] for part in traffic)
    print(
        f"  processor time of all parties together {used:.1f} s, centralised {alone_processor:.1f} s, "
        f"ratio {used / alone_processor:.2f}"
    )
    longest = max(part["processor"] for part in traffic)
    print(
        f"  the busiest party's {longest:.1f} s, ratio {longest / alone_processor:.2f}: what a computer of its own would add"
        " is waiting"
    )
    everywhere = []
    for place, name in enumerate(names):
        own = NMF(**settings).fit(parts[place])
        everywhere.append(held_out_error(X[held], own.components_))
        test = X[(owner == place) & held]
        errors = held_out_error(test, own.components_), held_out_error(test, models[0].components_)
        elsewhere = X[(owner != place) & held]
        others = held_out_error(elsewhere, own.components_), held_out_error(elsewhere, models[0].components_)
        print(
            f"  {name:12s} {parts[place].shape[0]:5d} messages: joint model better by "
            f"{100 * (1 - errors[1] / errors[0]):5.1f}% on its own held-out messages, "
            f"{100 * (1 - others[1] / others[0]):5.1f}% on the others'"
        )
    joint = held_out_error(X[held], models[0].components_)
    print(
        f"  on all held-out messages: better than the best party's own by {100 * (1 - joint / min(everywhere)):.1f}% (Fig. 4a)"
    )


def words(columns: int = COLUMNS, repeats: int = REPEATS) -> None:
    """What words of 128 bits cost against words of 64, side by side."""
    rows = [np.ones((2, 2))] * 3
    found = {bits: run_local(Totals(True, columns, repeats), rows, word_bits=bits)[0] for bits in (64, 128)}
    seconds = {bits: statistics.median(model.seconds_) for bits, model in found.items()}
    sent = {bits: model.traffic_["sent"] for bits, model in found.items()}
    print(
        f"words of 128 bits against 64, sum of {ROWS} x {columns}, 3 parties: {seconds[128]:.4f} and {seconds[64]:.4f} s, "
        f"ratio {seconds[128] / seconds[64]:.2f}; {sent[128]:,} and {sent[64]:,} bytes sent, ratio {sent[128] / sent[64]:.2f}"
    )


class Delayed:
    """Fit with every frame held back for a while before it is sent, as by a network between the parties."""

    def __init__(self, model: Any, seconds: float) -> None:
        self.model, self.seconds = model, seconds

    def fit(self, X: Any, y: Any = None) -> Delayed:
        """Fit; frames stay in order, because all are held back for the same time."""
        from tacit.parties.wire import Wire

        def send(wire: Any, frames: Any) -> None:
            wire._loop.call_soon_threadsafe(wire._loop.call_later, self.seconds, wire._queue, frames)

        def close(wire: Any, plain: Any = Wire.close) -> None:
            time.sleep(2 * self.seconds)  # the last frames are still held back
            plain(wire)

        if self.seconds:
            Wire.send, Wire.close = send, close  # type: ignore[method-assign]
        start = time.perf_counter()
        self.model.fit(X)
        self.seconds_ = time.perf_counter() - start
        self.guarantee_ = None
        return self


def delays(sweeps: int = 15, one_way: Sequence[float] = (0.0, 0.02, 0.1), word_bits: int = 128) -> None:
    """Six mailboxes with a delay on every message: rounds, not processors, decide."""
    X, owner, names = enron_rows()
    parts = [X[owner == place] for place in range(len(names))]
    settings: dict[str, Any] = {"n_components": 14, "init": "random", "max_iter": sweeps, "tol": 0}
    print(f"load {os.getloadavg()[0]:.1f} at the start")
    for seconds in one_way:
        models = run_local(Delayed(NMF(**settings), seconds), parts, names=names, word_bits=word_bits)
        rounds = models[0].traffic_["rounds"]
        took = max(model.seconds_ for model in models)
        print(
            f"one-way delay {1e3 * seconds:3.0f} ms: {took:.2f} s for {rounds} rounds, {1e3 * took / rounds:.0f} ms a round, "
            f"of which {2e3 * seconds:.0f} ms are the two messages of a sum"
        )


def noise(epsilons: Sequence[float] = (1.0, 3.0, 10.0), repeats: int = 8) -> None:
    from real_data import data_folder

    from tacit.measure import held_out_error

    faces = np.load(next((data_folder() / "faces").glob("*cbcl*")), allow_pickle=False)
    array = faces[max(faces.files, key=lambda name: faces[name].size)] if hasattr(faces, "files") else faces
    X = array.reshape(len(array), -1).astype(np.float64)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    order = np.random.default_rng(1).permutation(len(X))
    train, test = X[order[:2000]], X[order[2000:]]
    parts = np.array_split(train, 5)
    for epsilon in epsilons:
        settings: dict[str, Any] = {"n_components": 10, "epsilon": epsilon, "delta": 1e-5}
        central = [held_out_error(test, PrivateNMF(**settings).fit(train).components_) for _ in range(repeats)]
        among = [
            [
                held_out_error(test, run_local(PrivateNMF(**settings), parts, colluding=colluding)[0].components_)
                for _ in range(repeats)
            ]
            for colluding in (0, 1)
        ]
        # what the paper argues against: each party releases its own noisy dictionary, and these are averaged
        local = []
        for _ in range(repeats):
            own = [PrivateNMF(**settings).fit(part) for part in parts]
            merged = NMF(10, random_state=0).fit(np.concatenate([model.components_ for model in own]))
            local.append(held_out_error(test, merged.components_))
        means = [float(np.mean(errors)) for errors in (central, *among, local)]
        ways = ("noise in the sum of 5 parties", "the same, one may collude", "noise at every party")
        shown = "; ".join(
            f"{way} {mean:.4f}, {100 * (mean / means[0] - 1):+.1f}%" for way, mean in zip(ways, means[1:], strict=True)
        )
        print(f"faces, epsilon {epsilon:g}: central {means[0]:.4f}; {shown} (asked: the first within 5%)")


def ratings(epsilons: Sequence[float] = (5.0, 20.0), repeats: int = 8) -> None:
    """MovieLens 100K, users divided among 5 parties, one of which may collude: error on a tenth of the ratings."""
    import polars as pl
    from real_data import data_folder
    from scipy.sparse import csr_array

    table = pl.read_parquet(data_folder() / "movielens100k" / "ratings.parquet")
    user, item = (np.unique(table[name].to_numpy(), return_inverse=True)[1] for name in ("user", "item"))
    stars = table["rating"].to_numpy().astype(np.float64)
    user = np.random.default_rng(1).permutation(user.max() + 1)[user]
    held = np.random.default_rng(0).random(len(stars)) < 0.1
    X = csr_array((stars[~held], (user[~held], item[~held])), shape=(user.max() + 1, item.max() + 1))
    cuts = np.linspace(0, X.shape[0], 6).astype(int)

    def rmse(models: list[Any], starts: Sequence[int]) -> float:
        """Return the error of models of consecutive users."""
        squares = 0.0
        for model, start, stop in zip(models, starts, [*starts[1:], X.shape[0]], strict=True):
            own = held & (user >= start) & (user < stop)
            squares += float(np.sum((model.predict(user[own] - start, item[own]) - stars[own]) ** 2))
        return float(np.sqrt(squares / held.sum()))

    for epsilon in epsilons:
        model = PrivateRecommender(epsilon=epsilon, delta=1e-5)
        parts = [X[start:stop] for start, stop in itertools.pairwise(cuts)]
        central = [rmse([clone(model).fit(X)], [0]) for _ in range(repeats)]
        among = [rmse(run_local(model, parts, colluding=1), cuts[:-1]) for _ in range(repeats)]
        print(
            f"MovieLens 100K, epsilon {epsilon:g}, {repeats} runs: central {np.mean(central):.4f}; 5 parties, one may collude "
            f"{np.mean(among):.4f} (spread {np.std(among):.4f})"
        )


PARTS = {
    "sums": Part(sums, quick={"columns": 500, "repeats": 3}),
    "enron": Part(enron, quick={"sweeps": 2, "repeats": 1}),
    "delays": Part(delays, quick={"sweeps": 2, "one_way": (0.0, 0.02)}),
    "words": Part(words, quick={"columns": 500, "repeats": 3}),
    "ratings": Part(ratings, quick={"epsilons": (20.0,), "repeats": 1}),
    "noise": Part(noise, quick={"epsilons": (3.0,), "repeats": 1}),
}

if __name__ == "__main__":
    # MPyC starts its other parties with this command line, and reads its own options from it
    if "mpyc-party" in sys.argv:
        mpyc_party(int(sys.argv[sys.argv.index("mpyc-party") + 1]))
    else:
        main(__doc__, PARTS)

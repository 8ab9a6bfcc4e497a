"""KSDP: measure whether a document's presence shows in what leaves its holder (Kolmogorov-Smirnov distributional privacy).

This is Algorithm 5 of Tsikhanovich et al. (2019), section 4.

The measurement gets its observations from a mechanism. Estimators have one; `tacit.measure.ksdp.observing` makes one from a
program.

May be imported by whoever may import `measure`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.measure.inputs import Matrix
from tacit.measure.ksdp.observation import Observation, TotalsOnly, observing
from tacit.measure.ksdp.result import KSDP
from tacit.measure.ksdp.statistics import Statistic, fitting_statistics
from tacit.validation import check_count, check_rate, check_seed

__all__ = ["KSDP", "Observation", "TotalsOnly", "ksdp", "observing"]

Mechanism = Callable[[Matrix, Sequence[Matrix]], Observation]
LEAST_SAMPLES = 8
"""Fewest runs each way: the smallest possible p-value is then 2 / C(16, 8) = 0.00016."""


def ksdp(
    mechanism: object,
    X: Matrix,
    documents: Sequence[int],
    *,
    statistics: Sequence[Statistic] | None = None,
    samples: int = 100,
    size: int | None = None,
    holders: Sequence[int] = (),
    level: float = 0.05,
    jobs: int = 2,
    random_state: int = 0,
) -> KSDP:
    r"""Run a mechanism on sampled databases with and without each document, and compare what is seen (Algorithm 5).

    A database with the document consists of ``size - 1`` random rows of `X` and the document (line 2); one without it
    consists of `size` random rows (line 4). None contains another document that is measured. Every statistic of an
    observation is compared by a two-sample Kolmogorov-Smirnov test; the runs without a document are the same for all
    documents.

    Parameters
    ----------
    mechanism : estimator, or callable
        An estimator that runs among holders (`tacit.NMF`, `tacit.SVD`, ...), or a callable that takes a holder's rows
        and a list of the other holders' rows and returns an `Observation`, as `tacit.measure.ksdp.observing` makes from a
        program.
    X : ndarray or CSR matrix
        The table from which rows are sampled without replacement; it should have many more rows than a run uses.
    documents : sequence of int
        The rows of interest.
    statistics : sequence of callables, optional
        See `tacit.measure.ksdp.statistics`; if not given, those that fit the mechanism.
    samples : int, default=100
        Runs with each document, and runs without: ``samples * (len(documents) + 1)`` in total.
    size : int, optional
        Rows of the holder in a run; a tenth of those of `X` if not given. A smaller size makes a document more visible.
    holders : sequence of int, optional
        Rows of the other *honest* holders, sampled again in every run because the adversary does not know them. None by
        default: all others collude, and see the terms of the holder.
    level : float, default=0.05
        Corrected p-values up to this are flagged.
    jobs : int, default=2
        Number of processes. The result does not depend on it.
    random_state : int, default=0

    Returns
    -------
    KSDP
        A measurement, not a guarantee: it states what these statistics show with this number of runs.

    References
    ----------
    Tsikhanovich et al. 2019, section 4: pi-KSDP and Algorithm 5.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import SVD
    >>> from tacit.measure.ksdp import ksdp
    >>> X = np.random.default_rng(0).standard_normal((300, 4))
    >>> X[7] *= 20
    >>> result = ksdp(SVD(2, hide_singular_values=False), X, [3, 7], size=30, samples=20, jobs=1)
    >>> result.flagged
    (7,)
    """
    chosen = _checked_documents(documents, X.shape[0])
    count = check_count(samples, "samples", least=LEAST_SAMPLES)
    own = max(2, X.shape[0] // 10) if size is None else check_count(size, "size", least=2)
    others = tuple(check_count(rows, "holders") for rows in holders)
    level = check_rate(level, "level")
    random = check_seed(random_state)
    pool = np.setdiff1d(np.arange(X.shape[0]), chosen)
    if own + sum(others) > len(pool):
        raise InvalidInputError(
            f"at most {len(pool)} rows in a run: those of the table that are not measured",
            parameter(own + sum(others)),
            "Give a smaller size, fewer holders, or measure fewer documents at a time.",
        )
    observe = _mechanism(mechanism)
    # one list of seeds, by task and not by process, so that the result does not depend on the number of processes
    seeds = np.random.SeedSequence(random).spawn(count * (len(chosen) + 1))
    tasks: list[tuple[int | None, np.random.SeedSequence]] = [(None, seed) for seed in seeds[:count]]
    tasks += [(document, seed) for document, seed in zip(np.repeat(chosen, count).tolist(), seeds[count:], strict=True)]

    def measured(document: int | None, seed: np.random.SeedSequence) -> list[dict[str, float]]:
        """Run once; return the statistics of one document, or those of each document for a run without one."""
        # lines 2 and 4 of Algorithm 5, and after them lines 3 and 5
        rows = _sampled(pool, document, own, others, np.random.default_rng(seed))
        observation = observe(X[rows[0]], [X[part] for part in rows[1:]])
        used = fitting_statistics(observation) if statistics is None else statistics
        about = chosen.tolist() if document is None else [document]
        return [_numbers(used, observation, _dense(X[[row]])) for row in about]

    results = _run(measured, tasks, check_count(jobs, "jobs"))
    without = [[run[place] for run in results[:count]] for place in range(len(chosen))]
    present = [[run[0] for run in results[start : start + count]] for start in range(count, len(results), count)]
    names = tuple(dict.fromkeys(name for run in results for statistic in run for name in statistic))
    p_values = np.array(
        [_p_values(names, here, absent) for here, absent in zip(present, without, strict=True)], dtype=np.float64
    )
    return KSDP(tuple(chosen.tolist()), names, p_values, count, own, others, level)


def _run(
    measured: Callable[[int | None, np.random.SeedSequence], list[dict[str, float]]],
    tasks: Sequence[tuple[int | None, np.random.SeedSequence]],
    jobs: int,
) -> list[list[dict[str, float]]]:
    if jobs == 1:
        return [measured(*task) for task in tasks]
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    # long batches: a run takes milliseconds, and its transfer to a process nearly as long
    results: list[list[dict[str, float]]] = Parallel(n_jobs=jobs, batch_size=max(1, len(tasks) // (8 * jobs)))(
        delayed(measured)(*task) for task in tasks
    )
    return results


def _sampled(
    pool: NDArray[np.int64], document: int | None, own: int, others: tuple[int, ...], generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the rows of every holder in one run; the document, if there is one, is at a random place of the first."""
    fresh = own if document is None else own - 1
    drawn = generator.choice(pool, size=fresh + sum(others), replace=False)
    mine = drawn[:fresh] if document is None else np.insert(drawn[:fresh], generator.integers(own), document)
    return [mine, *np.split(drawn[fresh:], np.cumsum(others)[:-1] if others else [])][: 1 + len(others)]


def _numbers(
    statistics: Sequence[Statistic], observation: Observation, document: NDArray[np.float64]
) -> dict[str, float]:
    values: dict[str, float] = {}
    for statistic in statistics:
        values.update(statistic(observation, document))
    undefined = [name for name, value in values.items() if np.isnan(value)]
    if undefined:  # the test has no order for them, and would not flag what they hide
        raise InvalidInputError(
            f"the statistic {undefined[0]!r} to be a number in every run",
            words("NaN in one"),
            "Let it return infinity, or leave it out of the mapping, where it is not defined.",
        )
    return values


def _p_values(
    names: Sequence[str], present: Sequence[dict[str, float]], absent: Sequence[dict[str, float]]
) -> list[float]:
    from scipy.stats import ks_2samp

    # lines 8 to 10 of Algorithm 5; the minimum of line 11 is `KSDP.pi`
    # a run without a statistic (for example, with a single exchange) is distinguishable by that: it counts as the largest value
    def column(name: str, runs: Sequence[dict[str, float]]) -> NDArray[np.float64]:
        return np.array([run.get(name, np.inf) for run in runs])

    return [float(ks_2samp(column(name, present), column(name, absent)).pvalue) for name in names]


def _dense(row: Matrix) -> NDArray[np.float64]:
    return np.asarray(row if isinstance(row, np.ndarray) else row.toarray(), dtype=np.float64).ravel()


def _mechanism(mechanism: object) -> Mechanism:
    observe = getattr(mechanism, "_observed", mechanism)
    if not callable(observe):
        raise InvalidInputError(
            "an estimator that runs among holders, or a callable that returns an Observation",
            words(f"a {type(mechanism).__name__}"),
            "Make a mechanism from a program with tacit.measure.ksdp.observing.",
        )

    def checked(rows: Matrix, others: Sequence[Matrix]) -> Observation:
        observation = observe(rows, others)
        if not isinstance(observation, Observation):
            raise InvalidInputError(
                "a mechanism that returns an Observation",
                words(f"one that returned a {type(observation).__name__}"),
                "Make a mechanism from a program with tacit.measure.ksdp.observing.",
            )
        return observation

    return checked


def _checked_documents(documents: Sequence[int], rows: int) -> NDArray[np.int64]:
    chosen = np.asarray(documents)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu" or len(np.unique(chosen)) != chosen.size:
        raise InvalidInputError(
            "distinct row numbers as documents", kind_of(documents), "Give at least one, and each only once."
        )
    if chosen.min() < 0 or chosen.max() >= rows:
        raise InvalidInputError(f"documents from 0 to {rows - 1}", parameter(documents), "They are rows of the table.")
    return chosen.astype(np.int64)

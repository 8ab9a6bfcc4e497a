"""Small private programs for the tests: one that keeps the rules, and one for each way to break them."""

import numpy as np

from tacit.channel import Noisy, Outcome, Plan, Sample, Sum, run

ROUNDS = 3


def clip(X, norm=1.0):
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.maximum(1.0, lengths / norm)


def mean_program(X, rounds=ROUNDS, rate=None):
    """Estimate the mean row step by step, from noisy sums of clipped differences to the current estimate."""
    estimate = np.zeros(X.shape[1])
    for _ in range(rounds):
        rows = X
        if rate is not None:
            mask = yield Sample(len(X), rate)
            rows = X[mask]
        total = yield Sum(
            shift=clip(rows - estimate).sum(axis=0),
            count=[len(rows)],
            bound={"shift": 1.0, "count": 1.0},
            fractions={"shift": 0.8, "count": 0.2},
            units=len(rows),
        )
        estimate = estimate + total.shift / max(total.count[0], 1.0)
    return Outcome(public={"estimate": estimate}, private={"residuals": X - estimate})


def data_dependent_start(X):
    estimate = X.mean(axis=0)
    total = yield Sum(shift=clip(X - estimate).sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"estimate": estimate + total.shift})


def tolerance_stop(X):
    estimate = np.zeros(X.shape[1])
    for _ in range(ROUNDS):
        total = yield Sum(shift=clip(X - estimate).sum(axis=0), bound=1.0, units=len(X))
        estimate = estimate + total.shift / 50
        if np.abs(X - estimate).max() < 30:
            break
    return Outcome({"estimate": estimate})


def unclipped(X):
    total = yield Sum(shift=X.sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"estimate": total.shift})


def clear_row_count(X):
    total = yield Sum(shift=clip(X).sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"estimate": total.shift / len(X)})


def scaled_by_the_largest(X):
    total = yield Sum(shift=clip(X / np.abs(X).max()).sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"estimate": total.shift})


def bound_from_the_data(X):
    total = yield Sum(shift=X.sum(axis=0), bound=float(np.linalg.norm(X, axis=1).max()), units=len(X))
    return Outcome({"estimate": total.shift})


def shape_from_the_data(X):
    kept = np.flatnonzero(np.abs(X).max(axis=0) > 2.0)
    total = yield Sum(shift=clip(X)[:, kept].sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"estimate": total.shift})


def sample_ignored(X):
    yield Sample(len(X), 0.5)
    total = yield Sum(shift=clip(X).sum(axis=0), bound=1.0, units=len(X))
    yield Sample(len(X), 0.5)
    total = yield Sum(shift=clip(X).sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"estimate": total.shift})


def private_thing_made_public(X):
    total = yield Sum(shift=clip(X).sum(axis=0), bound=1.0, units=len(X))
    return Outcome({"estimate": total.shift, "loss": float(((X - total.shift) ** 2).sum())})


def fit_with(program, steps=ROUNDS, **plan):
    """Return a fit, for `check_neighbours`, that runs `program` over a noisy channel."""

    def fit(X):
        channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=steps, **plan), insecure_seed=7)
        return run(program(X), channel).public

    return fit

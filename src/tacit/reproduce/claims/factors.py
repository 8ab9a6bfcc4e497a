"""Claims about factors, starts and iterates that are computed from private data without noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.factor.nmf.start import nndsvd
from tacit.privacy.published import dwork_roth_noise_multiplier
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide

Matrix = NDArray[np.float64]


@item(
    paper="claims",
    name="saha-start",
    title="Saha & Imtiaz 2022, Theorem 3.1: the dictionary of Algorithm 2 is differentially private",
    page=5,
    minutes=0.1,
    code=("tacit.factor.nmf.start.nndsvd", "tacit.PrivateNMF"),
)
def saha_start(run: ItemRun) -> ItemOutcome:
    """Section 4 starts from NNDSVD of the private data: the analyst, who updates W, has W_0, which no noise protects.

    An adversary who knows all rows but one guesses which of two values that row has, from W_0. The bound on the fraction of right
    guesses for epsilon 0.5 is e^0.5 / (1 + e^0.5), plus delta.
    """
    right, changes = [], []
    for seed in range(run.seed, run.seed + run.pick(50, 5)):
        draw = np.random.default_rng(seed)
        one = draw.random((200, 5)) @ draw.random((5, 30))
        other = one.copy()
        other[0] = draw.random(5) @ draw.random((5, 30))
        starts = [nndsvd(table, 5)[1] for table in (one, other)]
        secret = int(draw.integers(2))
        seen = nndsvd((one, other)[secret], 5)[1]
        guess = int(np.linalg.norm(seen - starts[1]) < np.linalg.norm(seen - starts[0]))
        right.append(float(guess == secret))
        changes.append(float(np.linalg.norm(starts[0] - starts[1]) / np.linalg.norm(starts[0])))
    bound = math.exp(0.5) / (1 + math.exp(0.5))
    rows = (
        Row(
            ("fraction of right guesses, epsilon 0.5",),
            bound,
            (float(np.mean(right)),),
            "lower",
            "One of 200 rows replaced.",
            3,
        ),
        Row(
            ("relative change of the start by one row of 200",),
            0.0,
            (float(np.mean(changes)),),
            "lower",
            "A change that is certain.",
            4,
        ),
    )
    return ItemOutcome(
        (
            SideBySide(
                "What privacy allows, and what the start shows", ("quantity",), rows, ("allowed", "measured"), True
            ),
        ),
        verdicts=(
            "The composition of Theorem 3.1 is right for what it counts; the start is not counted. A random start, or "
            "one from noisy moments, repairs it (`PrivateNMF`), as does public data.",
        ),
    )


def _gradients(V: Matrix, rated: NDArray[np.bool_], X: Matrix, users: Matrix) -> tuple[Matrix, Matrix]:
    """Lines 3 to 5 of Algorithm 1 of Mugdho and Imtiaz, with C = 1 and lambda = 0.01."""

    def clipped(rows: Matrix) -> Matrix:
        shortened: Matrix = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
        return shortened

    errors = (X @ users.T - V) * rated
    return errors @ clipped(users) + 0.01 * X, errors.T @ clipped(X) + 0.01 * users


@item(
    paper="claims",
    name="mugdho-items",
    title="Mugdho & Imtiaz 2022, Theorem 2: the user profiles of Algorithm 1 are differentially private",
    page=8,
    minutes=0.3,
    code=("tacit.PrivateRecommender",),
)
def mugdho_items(run: ItemRun) -> ItemOutcome:
    """Item profiles are updated from the ratings without noise, and enter every later gradient of the users.

    Two runs with the same released users, on ratings that differ in one value by tau = 4; the proof bounds the change of the
    gradient by tau C = 4 in every iteration, with the item profiles taken as fixed.
    """
    n_users, n_items, rank, step = run.pick((2000, 60, 10, 0.0005), (300, 20, 5, 0.002))
    draw = np.random.default_rng(run.seed)
    rated = draw.random((n_items, n_users)) < 0.1
    rated[0] = True  # a popular item
    V = np.where(rated, draw.integers(1, 6, (n_items, n_users)), 0).astype(np.float64)
    V[0, 0] = 1.0
    other = V.copy()
    other[0, 0] = 5.0
    X = draw.normal(size=(n_items, rank))
    users = draw.normal(size=(n_users, rank))
    X, users = X / np.linalg.norm(X, axis=1)[:, None], users / np.linalg.norm(users, axis=1)[:, None]
    sigma = 4.0 * dwork_roth_noise_multiplier(0.8, 0.01)
    profiles = [X, X]
    changes, elsewhere = [], []
    for _ in range(run.pick(400, 30)):
        # the released users are the same in both runs: the proof's query is the gradient, given what was released before
        gradients = [_gradients(table, rated, own, users) for table, own in zip((V, other), profiles, strict=True)]
        change = gradients[1][1] - gradients[0][1]
        changes.append(float(np.linalg.norm(change)) / 4.0)
        elsewhere.append(float(np.linalg.norm(change[1:])) / 4.0)
        profiles = [own - step * gradient for own, (gradient, _) in zip(profiles, gradients, strict=True)]
        users = users - step * (gradients[0][1] + sigma * draw.normal(size=users.shape))
    iterations = tuple(float(number + 1) for number in range(len(changes)))
    rows = (
        Row(
            ("largest change of the gradient, over tau C",),
            1.0,
            (max(changes),),
            "lower",
            "One rating changed; the same released users in both runs.",
            3,
        ),
        Row(
            ("of it, the part of other users' rows",),
            0.0,
            (max(elsewhere),),
            "lower",
            "By way of the item's profile, which has no noise.",
            3,
        ),
    )
    figure = Figure(
        "Change of the noisy gradient by one rating, over the stated bound",
        "iteration",
        "change / (tau C)",
        (
            Curve("all rows", iterations, tuple(changes)),
            Curve("other users", iterations, tuple(elsewhere), dashed=True),
        ),
    )
    return ItemOutcome(
        (SideBySide("The stated bound, and what happens", ("quantity",), rows, ("stated", "measured"), True),),
        (figure,),
        verdicts=(
            "If the item profiles come from elsewhere and stay fixed, as the paper's use of third-party items suggests,"
            " the proof holds. "
            '`PrivateRecommender(method="gradient")` adds noise to both gradients.',
        ),
    )


@item(
    paper="claims",
    name="ermis-clear-factors",
    title="Ermis 2020, site-level privacy: a cell costs nothing in steps that do not sample it",
    page=62,
    minutes=0.1,
    code=("tacit.PrivateCoupledFactorization",),
)
def ermis_clear_factors(run: ItemRun) -> ItemOutcome:
    """(4.21) updates a site's own factors without noise; the next shared gradient (4.18) is computed from them.

    Two runs with the same batches and the same released shared factors, on matrices that differ in one cell. Amplification by
    sampling (Theorem 4.8) needs the release of a step without the cell to be the same.
    """
    draw = np.random.default_rng(run.seed)
    rows, columns, rank, batch, clip, steps = 60, 40, 5, 100, 2.0, run.pick(300, 30)
    X = draw.normal(size=(rows, rank)) @ draw.normal(size=(rank, columns))
    other = X.copy()
    other[0, 0] += 4.0
    start = 0.1 + 0.1 * draw.normal(size=(rows, rank))
    owns, V = [start, start], 0.1 * draw.normal(size=(columns, rank))
    without, changed, largest = 0, 0, 0.0
    for number in range(1, steps + 1):
        i, j = draw.integers(0, rows, batch), draw.integers(0, columns, batch)
        own_noise, noise = draw.normal(size=(rows, rank)), draw.normal(size=(columns, rank))
        kappa, released = 0.002 / number**0.5, []
        for place, table in enumerate((X, other)):
            U = owns[place]
            errors = table[i, j] - np.einsum("nr,nr->n", U[i], V[j])
            shared = np.zeros_like(V)
            np.add.at(shared, j, errors[:, None] * U[i])
            shared *= rows * columns / batch
            released.append(shared / max(1.0, float(np.linalg.norm(shared)) / clip))  # (4.19)
            own = np.zeros_like(U)
            np.add.at(own, i, errors[:, None] * V[j])
            owns[place] = U + kappa * own + math.sqrt(2 * kappa) * 0.01 * own_noise  # (4.21)
        V = V + 0.05 * released[0] + 0.01 * noise
        if not np.any((i == 0) & (j == 0)):
            without += 1
            change = float(np.linalg.norm(released[0] - released[1]))
            changed += change > 0
            largest = max(largest, change / (2 * clip))
    result = SideBySide(
        "What amplification needs, and what happens",
        ("quantity",),
        (
            Row(
                ("fraction of the steps without the cell whose release changes",),
                0.0,
                (changed / without,),
                "lower",
                f"{without} of {steps} steps.",
                3,
            ),
            Row(
                ("largest change in such a step, over 2G",), 0.0, (largest,), "lower", "The clipping bounds it by 1.", 4
            ),
        ),
        heads=("needed", "measured"),
        of_claim=True,
    )
    return ItemOutcome(
        (result,),
        verdicts=(
            "Without amplification the noise for 2G covers every step, so a sound epsilon exists: that of all steps without "
            "sampling. With user-level privacy the own factors get noise too, and the gap is closed.",
        ),
    )


@item(
    paper="claims",
    name="tsikhanovich-hidden-sigma",
    title="Tsikhanovich et al. 2019, section 3: normalised sums hide the singular values",
    page=9,
    minutes=0.1,
    code=("tacit.SVD",),
)
def tsikhanovich_hidden_sigma(run: ItemRun) -> ItemOutcome:
    """The scale is hidden; the ratios follow from two normalised iterates and the final vectors, which all parties see."""
    draw = np.random.default_rng(run.seed)
    left, right = (np.linalg.qr(draw.normal(size=shape))[0] for shape in ((200, 6), (40, 6)))
    values = np.array([10.0, 7.0, 5.0, 3.0, 2.0, 1.0])
    A = (left * values) @ right.T
    S = A.T @ A
    vector = draw.normal(size=40)
    before = vector / np.linalg.norm(vector)
    after = S @ before
    after /= np.linalg.norm(after)  # what the parties see
    vectors = np.linalg.svd(A)[2][:6].T
    factors = (vectors.T @ after) / (vectors.T @ before)  # sigma_i^2, up to the hidden norm
    recovered = np.sqrt(factors / factors[0])
    rows = tuple(
        Row(
            (f"sigma_{place} / sigma_1",),
            float(values[place - 1] / values[0]),
            (float(recovered[place - 1]),),
            None,
            "From one iterate, the next, and V.",
            4,
        )
        for place in range(2, 7)
    )
    return ItemOutcome(
        (SideBySide("What a party recovers", ("ratio",), rows, ("true", "recovered"), True),),
        verdicts=(
            "The claim that the norms are not revealed holds. It does not follow that sigma is unknown: its ratios are "
            "known. The paper's sums are exact and lightweight, and its measurement (KSDP) is presented as a test, not "
            "as a proof, which is what it is.",
        ),
    )

"""Claims about how much noise an epsilon needs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
from tacit.privacy.published import (
    dwork_roth_noise_multiplier,
    ermis_geometric_epsilon,
    ermis_zcdp_noise_multiplier,
    mugdho_epsilon,
    saha_epsilon,
)
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import ItemOutcome, Row, SideBySide

BATCH_DELTA = 1e-3
"""The thesis's delta in section 7.1."""


@item(
    paper="claims",
    name="ermis-sampled-zcdp",
    title="Ermis 2020, sections 4.2.2 and 5.2.3: zCDP is amplified by sampling",
    page=68,
    minutes=0.5,
    code=("tacit.privacy.published.ermis_zcdp_noise_multiplier", "tacit.privacy.calibration.gaussian_epsilon"),
)
def ermis_sampled_zcdp(run: ItemRun) -> ItemOutcome:
    """Pages 68 and 77, eq. 4.28 and 4.29: the printed noise, and the formula's, with the epsilon that they cost."""
    settings = (
        ("synthetic, T = 300, rate 0.02", 1.0, 1e-3, 300, 0.02, 2.87, 6),
        ("MNIST, T = 20,000, rate 0.01", 0.5, 1e-4, 20_000, 0.01, 3.23, 200),
    )
    rows = []
    for title, epsilon, delta, steps, rate, printed, epochs in run.each(run.pick(settings, settings[:1])):

        def cost(noise: float, delta: float = delta, steps: int = steps, rate: float = rate) -> float:
            return gaussian_epsilon(noise, delta, steps=steps, sampling_rate=rate)

        by_epochs = ermis_zcdp_noise_multiplier(epsilon, delta, epochs, rate)
        by_steps = ermis_zcdp_noise_multiplier(epsilon, delta, steps, rate)
        for noise, source in (
            (printed, "the printed sigma"),
            (by_epochs, "the formula with T = epochs"),
            (by_steps, "the formula with T = steps"),
        ):
            verdict = (
                "the stated epsilon does not hold" if cost(noise) > epsilon else "more noise than needed, by chance"
            )
            remark = f"sigma {noise:.2f}: {verdict}."
            rows.append(Row((title, source), epsilon, (cost(noise),), "lower", remark, 3))
        sound = gaussian_noise_multiplier(epsilon, delta, steps=steps, sampling_rate=rate)
        rows.append(Row((title, "sound"), epsilon, (cost(sound),), "lower", f"sigma {sound:.2f}.", 3))
    return ItemOutcome(
        (
            SideBySide(
                "The epsilon that is stated, and the one that the noise costs",
                ("setting", "noise"),
                tuple(rows),
                heads=("stated", "measured"),
                of_claim=True,
            ),
        ),
        verdicts=(
            "Theorem 4.8 amplifies (epsilon, delta), not zCDP: a sampled Gaussian sum is not zCDP with a smaller rho, "
            "so the step from eq. 4.28 to eq. 4.29 has no proof. Sometimes its noise is enough, sometimes it is not.",
        ),
    )


@item(
    paper="claims",
    name="ermis-geometric-noise",
    title="Ermis 2020, section 4.1.4: two-sided geometric noise with parameter epsilon is epsilon-DP",
    page=52,
    minutes=0.1,
    code=("tacit.privacy.published.ermis_geometric_epsilon", "tacit.LocallyPrivateCounts"),
)
def ermis_geometric_noise(run: ItemRun) -> ItemOutcome:
    """Page 52, eq. 4.15: P(tau) = (1 - a)/(1 + a) a^|tau| with a written as epsilon; the loss of a change by one is log(1/a)."""
    rows = []
    for a in (0.05, 0.1, 0.5, 0.9):
        spread = math.sqrt(2 * a) / (1 - a)
        remark = f"Standard deviation of the noise {spread:.2f}: a smaller parameter means less noise and less privacy."
        rows.append(Row((f"{a:g}",), a, (ermis_geometric_epsilon(a),), "lower", remark, 3))
    return ItemOutcome(
        (
            SideBySide(
                "The epsilon that is stated, and the one of the noise as printed",
                ("parameter",),
                tuple(rows),
                heads=("stated", "exact"),
                of_claim=True,
            ),
        ),
        verdicts=(
            "With a = exp(-epsilon), as in the work that the thesis builds on, the claim holds: a slip of notation, if "
            "the code is right.",
        ),
    )


@item(
    paper="claims",
    name="ermis-batch-clipping",
    title="Ermis 2020, Algorithm 1: noise for clipped examples is enough for a clipped batch",
    page=51,
    minutes=0.5,
    code=("tacit.PrivateCoupledFactorization",),
)
def ermis_batch_clipping(run: ItemRun) -> ItemOutcome:
    """Page 51: (4.8) clips the batch's gradient after it was multiplied by S/B, and line 6 divides the noise by S.

    One cell then changes the clipped gradient by up to 2G, whatever S is. The noise over that change is
    z_t = c2 T^(1/3) t^(1/6) sqrt(log(1/delta)) / (2 epsilon S). The epsilon of all steps is computed by the central limit of the
    composition, mu^2 = q^2 sum(exp(1/z_t^2) - 1).
    """
    # page 47: the step size 0.103 at S = 50,000, T = 10,000, G = 1, epsilon 0.1, delta 1e-5 follows from this c2
    implied = math.sqrt(0.1**2 * 50_000 / (0.103 * 10_000 ** (2 / 3) * math.log(1e5)))
    rows = []
    for title, cells, batch, passes, epsilon in (
        ("synthetic, 150 x 50, B = 1, 150 passes, epsilon 0.1", 7_500, 1, 150, 0.1),
        ("MovieLens, 2000 x 6040, B = 100, 60 passes, epsilon 1", 12_080_000, 100, 60, 1.0),
    ):
        steps, rate = passes * cells / batch, batch / cells
        times = np.geomspace(1, steps, 2000)
        per_c2 = steps ** (1 / 3) * times ** (1 / 6) * math.sqrt(math.log(1 / BATCH_DELTA)) / (2 * epsilon * cells)

        def holds(
            c2: float,
            epsilon: float = epsilon,
            rate: float = rate,
            times: NDArray[np.float64] = times,
            per_c2: NDArray[np.float64] = per_c2,
        ) -> bool:
            exponents = 1 / (c2 * per_c2) ** 2
            if exponents.max() > 300:
                return False
            mu = rate * math.sqrt(float(np.trapezoid(np.expm1(exponents), times)))
            return gaussian_epsilon(1 / mu, BATCH_DELTA) <= epsilon

        low, high = 1e-3, 1e9
        while high > 1.01 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if holds(middle) else (middle, high)
        remark = (
            f"With {implied:.2f}, the noise of the last step is {implied * per_c2[-1]:.2g} of the change by one cell."
        )
        rows.append(Row((title,), implied, (high,), "lower", remark, 2))
    return ItemOutcome(
        (
            SideBySide(
                "The constant c2 of the thesis's example, and the one that the stated epsilon needs",
                ("setting",),
                tuple(rows),
                heads=("stated", "needed"),
                of_claim=True,
            ),
        ),
        verdicts=(
            "Clipping a batch does bound the change of its gradient, by 2G, and Algorithm 3 adds noise for 2G: there it"
            " is sound, and wasteful, because all examples of the batch together must stand out against noise that "
            "hides the whole batch. In Algorithm 1 the noise is that of a theorem which bounds each example's gradient "
            "and averages over S of them.",
        ),
    )


@item(
    paper="claims",
    name="what-holds",
    title="Saha & Imtiaz, Theorem 3.1; Mugdho & Imtiaz, eq. 9: the accounting of full-batch Gaussian noise",
    page=5,
    minutes=0.1,
    code=("tacit.privacy.published.saha_epsilon", "tacit.privacy.published.mugdho_epsilon"),
)
def what_holds(run: ItemRun) -> ItemOutcome:
    """Given the sensitivities that they state, both formulas are valid, and a little loose."""
    delta = 1e-5
    rows = []
    for steps, step_epsilon in ((50, 0.1), (100, 0.5), (400, 0.5)):
        noise = dwork_roth_noise_multiplier(step_epsilon, 1e-2)
        stated = mugdho_epsilon(step_epsilon, 1e-2, steps, delta)
        real = gaussian_epsilon(noise, delta, steps=steps)
        label = f"J = {steps}, epsilon_i = {step_epsilon:g}, delta = 0.01"
        rows.append(Row(("Mugdho eq. 9", label), stated, (real,), "lower", "The stated epsilon is an upper bound.", 3))
    for steps, noise in ((50, 30.0), (200, 30.0)):
        stated = saha_epsilon((noise, noise), steps, delta)
        real = gaussian_epsilon(noise / math.sqrt(2), delta, steps=steps)
        label = f"T = {steps}, noise of {noise:g} sensitivities"
        rows.append(
            Row(("Saha Theorem 3.1", label), stated, (real,), "lower", "The stated epsilon is an upper bound.", 3)
        )
    return ItemOutcome(
        (
            SideBySide(
                "The epsilon that is stated, and the exact one",
                ("formula", "setting"),
                tuple(rows),
                heads=("stated", "exact"),
                of_claim=True,
            ),
        )
    )

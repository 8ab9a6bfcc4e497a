"""Private coupled factorisation by noisy gradients: against its formula, against an exact solution, and the size of its noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit import PrivateCoupledFactorization, Relation
from tacit.channel import Clear, Noisy, Plan, Sample, Step, Sum, Total, run
from tacit.errors import InvalidInputError
from tacit.factor.coupled.private.dp_sgld import (
    MEMORY,
    OWN_NOISE,
    RIDGE,
    SgldSettings,
    penalties,
    public_start,
    sgld_program,
)
from tacit.factor.coupled.private.problem import problems_of
from tacit.factor.coupled.private.unit_cells import UnitCells

KNOWN = {"observed": "stored", "divergence": "euclid"}
BOTH = ("user", "film")


def small(n_users=12, n_films=5, seed=0, rank=1):
    """A matrix with gaps, of rank one and a little noise; return its problem, its cells and the dense values."""
    draw = np.random.default_rng(seed)
    dense = np.clip(np.outer(draw.uniform(0.4, 1, n_users), draw.uniform(0.3, 1, n_films)), -1, 1)
    dense += draw.normal(0, 0.02, dense.shape)
    cells = np.argwhere(draw.random(dense.shape) < 0.8)
    relation = Relation((cells, dense[tuple(cells.T)], dense.shape), "ir,jr->ij", BOTH, **KNOWN)
    problem = problems_of([[relation]], {"r": rank}, "user", None)[0]
    return problem, [UnitCells.of(relation, problem, -1, 1)], cells, dense


def by_hand(cells, values, factors, names, unit_of, taken, clip):
    """The sum of the units' gradients, each clipped to a norm, one cell at a time."""
    total = {name: np.zeros_like(factors[name]) for name in names}
    for unit in np.flatnonzero(taken):
        mine = {name: np.zeros_like(factors[name]) for name in names}
        for (user, film), value, owner in zip(cells, values, unit_of, strict=True):
            if owner == unit:
                error = value - factors["user"][user] @ factors["film"][film]
                if "user" in names:
                    mine["user"][user] += error * factors["film"][film]
                mine["film"][film] += error * factors["user"][user]
        norm = math.sqrt(sum((one**2).sum() for one in mine.values()))
        for name in names:
            total[name] += mine[name] * min(1.0, clip / max(norm, 1e-300))
    return total


def test_a_step_is_the_one_of_the_formula():
    """Two steps at rank 2 with a cell as the unit: the requested sum, its bound, and the factors after the noisy answer."""
    problem, listed, cells, dense = small(rank=2)
    values, rate, clip, eta, gamma = dense[tuple(cells.T)], 0.5, 0.3, 0.05, 0.33
    settings = SgldSettings(2, rate, clip, eta, gamma, BOTH, True, 7)
    factors = public_start(problem, problem.ranks, settings, non_negative=False)
    program = sgld_program(problem, listed, problem.ranks, settings)
    draw = np.random.default_rng(1)
    ask, scales, kept = next(program), dict.fromkeys(BOTH, 0.0), []
    for step in range(2):
        assert isinstance(ask, Sample)
        assert (ask.units, ask.rate) == (len(cells), rate)
        taken = draw.random(ask.units) < rate
        ask = program.send(taken)
        assert isinstance(ask, Sum)
        assert (ask.bound.norm, ask.units) == (clip, taken.sum())
        expected = by_hand(cells, values, factors, BOTH, np.arange(len(cells)), taken, clip)
        answer = {}
        for name in BOTH:
            assert np.allclose(ask.arrays[f"factor:{name}"], expected[name])
            answer[name] = expected[name] + draw.normal(0, 2 * clip, expected[name].shape)
            drift = answer[name] / rate - RIDGE * factors[name]
            scales[name] = MEMORY * scales[name] + (1 - MEMORY) * np.mean(drift**2)
            size = math.sqrt(scales[name] / (1 - MEMORY ** (step + 1)))
            factors[name] = factors[name] + eta / (step + 1) ** gamma * drift / size
        kept.append(dict(factors))
        try:
            ask = program.send(Total({f"factor:{name}": one for name, one in answer.items()}))
        except StopIteration as stop:
            public = stop.value.public
    for name in BOTH:  # of two steps the second half is the last
        assert np.allclose(public[f"rows:{name}"], kept[1][name])


@pytest.mark.slow
def test_without_noise_gradients_reach_the_exact_optimum():
    """Users' rows in closed form, films by gradients: converges to the result of alternating ridge regressions."""
    problem, listed, cells, dense = small()
    settings = SgldSettings(4000, 1.0, 1e6, 0.05, 0.6, ("film",), False, 0)
    found = run(sgld_program(problem, listed, problem.ranks, settings), Clear()).public["rows:film"]
    known = np.zeros(dense.shape)
    known[tuple(cells.T)] = 1.0
    film = np.full((dense.shape[1], 1), 0.5)
    for _ in range(5000):
        user = (known * dense) @ film / (known @ film**2 + OWN_NOISE)
        film = (known * dense).T @ user / (known.T @ user**2 + RIDGE)
    assert np.allclose(found, film, rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_noise_is_what_the_plan_says(adjacency):
    """Cells that the start already explains have no gradient: the first answer is noise alone."""
    rate, clip, rank = 0.3, 0.4, 4
    problem, _, cells, dense = small(60, 40, rank=rank)
    settings = SgldSettings(2, rate, clip, 0.05, 0.33, BOTH, True, 3)
    factors = public_start(problem, problem.ranks, settings, non_negative=False)
    values = (factors["user"] @ factors["film"].T)[tuple(cells.T)]
    relation = Relation((cells, values, dense.shape), "ir,jr->ij", BOTH, **KNOWN)
    problem = problems_of([[relation]], {"r": rank}, "user", None)[0]
    plan = Plan.for_budget(1.0, 1e-5, steps=[Step(count=2, sampling_rate=rate)], unit="cell", adjacency=adjacency)
    channel = Noisy(plan, keep_values=True, insecure_seed=2)
    run(sgld_program(problem, [UnitCells.of(relation, problem, -1, 1)], problem.ranks, settings), channel)
    first = next(iter(channel.transcript))
    noise = np.concatenate([np.ravel(one) for one in first.totals.values()])
    assert len(noise) == 100 * rank
    expected = plan.multiplier(1.0) * clip  # under replace-one the account has the doubling, and so the multiplier
    # 400 draws: the standard deviation is known to 3.5% (one sigma)
    assert noise.std() == pytest.approx(expected, rel=0.14)
    assert abs(noise.mean()) < 4 * expected / math.sqrt(len(noise))


@pytest.mark.slow
def test_more_budget_gives_a_better_model():
    draw = np.random.default_rng(4)
    mean = np.clip(np.outer(draw.uniform(0.2, 1, 400), draw.uniform(-1, 1, 15)), -1, 1)
    cells = np.argwhere(draw.random(mean.shape) < 0.7)
    relation = Relation((cells, mean[tuple(cells.T)], mean.shape), "ir,jr->ij", BOTH, **KNOWN)
    errors = []
    for epsilon in (0.05, 5.0, math.inf):
        model = PrivateCoupledFactorization(
            {"r": 2}, epsilon=epsilon, value_range=(-1, 1), method="sgld", rounds=150, insecure_seed=1
        )
        errors.append(np.sqrt(np.mean((model.fit([relation]).predict("user-film") - mean) ** 2)))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.5 * mean.std()


def test_the_hyper_prior_estimates_precisions_from_the_factors():
    factor = np.column_stack([np.full(50, 2.0), np.full(50, 0.1)])
    settings = SgldSettings(10, 0.5, 1.0, 0.05, 0.33, ("film",), True, 0)
    assert penalties(factor, settings) == RIDGE
    given = penalties(factor, replace(settings, hyper=(1.0, 0.01), value_variance=0.5))
    assert np.allclose(given, [0.5 * (1 + 25) / (0.01 + 100), 0.5 * (1 + 25) / (0.01 + 0.25)])
    for wrong in ((1.0,), (0.0, 1.0), (1.0, -1.0)):
        with pytest.raises(InvalidInputError, match="hyper_prior"):
            PrivateCoupledFactorization(2, method="sgld", hyper_prior=wrong, value_range=(-1, 1)).fit(
                [Relation(np.ones((4, 3)), "ir,jr->ij", ("user", "film"), divergence="euclid")]
            )


def test_the_hyper_prior_does_not_outweigh_precise_cells():
    """With the weight of its precisions alone it let all factors of precise cells shrink to zero, without any noise."""
    draw = np.random.default_rng(0)
    mean = draw.normal(size=(60, 2)) @ draw.normal(size=(2, 30)) / 6
    values = mean + 0.02 * draw.standard_normal(mean.shape)
    relation = Relation(values, "ir,jr->ij", BOTH, divergence="euclid")
    settings = {"epsilon": math.inf, "value_range": (-2, 2), "method": "sgld", "rounds": 300, "sampling_rate": 1.0}
    model = PrivateCoupledFactorization(2, **settings, hyper_prior=(1, 0.01), value_variance=1e-4)
    model.fit([relation])
    assert np.std(model.predict("user-film") - mean) < 0.2 * np.std(mean)

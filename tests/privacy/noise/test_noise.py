"""The noise has the law it claims, and the checks that say so would notice if it had not.

Every statistical check gives a p-value, and a sampler is refused when one falls below LEVEL. Seeds are
fixed, so the outcome is too. With DRAWS draws a width that is 2 % off adds about 800 (Gaussian) or 400 (Laplace)
to a chi-square of at most 250 degrees of freedom, and moves the variance by at least 17 standard errors:
in either case more than 5 standard deviations past the limit, so a wrong sampler has next to no chance.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from tacit.errors import InvalidInputError
from tacit.privacy.noise import discrete_gaussian, discrete_laplace, samplers
from tacit.privacy.noise import discrete_gaussian_pmf as gaussian_pmf
from tacit.privacy.noise import discrete_laplace_pmf as laplace_pmf
from tacit.privacy.noise.entropy import insecure_generator

LEVEL = 1e-4
DRAWS = 1_000_000


@dataclass(frozen=True)
class Law:
    """A sampler with what the checks compare it to; `limit` is its law for a large width, in widths."""

    draw: Callable[..., np.ndarray]
    pmf: Callable[..., np.ndarray]
    limit: stats.rv_continuous


GAUSSIAN = Law(discrete_gaussian, gaussian_pmf, stats.norm)
LAPLACE = Law(discrete_laplace, laplace_pmf, stats.laplace)
SMALL = [(law, width) for law in (GAUSSIAN, LAPLACE) for width in (0.5, 0.7, 1.0, np.pi, 10.0)]
LARGE = [(law, width) for law in (GAUSSIAN, LAPLACE) for width in (1000.0, 1e6 + 1 / 3, 2.0**40)]
both_laws = pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])


# The checks: from draws and the law they should have to named p-values.


def pooled(counts: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pool the rarest cells until they expect at least 10 draws together, as the chi-square needs."""
    order = np.argsort(expected)
    rare = np.searchsorted(np.cumsum(expected[order]), 10) + 1
    return tuple(np.append(x[order[rare:]], x[order[:rare]].sum()) for x in (counts, expected))


def mass_checks(draws: np.ndarray, law: Law, width: float) -> dict[str, float]:
    reach = max(int(np.abs(draws).max()), int(40 * width) + 2)
    counts = np.bincount(draws + reach, minlength=2 * reach + 1).astype(float)
    counts, expected = pooled(counts, draws.size * law.pmf(np.arange(-reach, reach + 1), width))
    statistic = ((counts - expected) ** 2 / expected).sum()
    return {"mass": float(stats.chi2.sf(statistic, counts.size - 1))}


def zero_check(draws: np.ndarray, law: Law, width: float) -> dict[str, float]:
    return {"zero": stats.binomtest(int((draws == 0).sum()), draws.size, float(law.pmf(0, width))).pvalue}


def moment_and_tail_checks(draws: np.ndarray, law: Law, width: float) -> dict[str, float]:
    _, variance, _, excess = law.limit.stats(moments="mvsk")
    x = draws / width
    z_mean = x.mean() * np.sqrt(x.size / variance)
    z_variance = (np.square(x).mean() / variance - 1) * np.sqrt(x.size / (excess + 2))
    found = {
        "mean": 2 * stats.norm.sf(abs(z_mean)),
        "variance": 2 * stats.norm.sf(abs(z_variance)),
        "distribution": stats.kstest(x, law.limit.cdf, method="asymp").pvalue,
        "sign": stats.binomtest(int((draws > 0).sum()), int((draws != 0).sum())).pvalue,
    }
    for deviations in (3, 4):
        edge = np.floor(deviations * np.sqrt(variance) * width)
        beyond = 2 * float(law.limit.sf((edge + 0.5) / width))
        count = int((np.abs(draws) > edge).sum())
        found[f"beyond {deviations}"] = stats.binomtest(count, x.size, beyond).pvalue
    return {name: float(p) for name, p in found.items()}


def independence_checks(draws: np.ndarray) -> dict[str, float]:
    x = (draws - draws.mean()) / draws.std()
    z = (x[1:] * x[:-1]).mean() * np.sqrt(x.size - 1)
    cells = np.searchsorted(np.unique(np.quantile(draws, [0.1, 0.35, 0.65, 0.9])), draws)
    table, _, _ = np.histogram2d(cells[0::2], cells[1::2], bins=np.arange(cells.max() + 2) - 0.5)
    return {"lag": float(2 * stats.norm.sf(abs(z))), "pairs": float(stats.chi2_contingency(table).pvalue)}


def agreement_check(draws: np.ndarray, others: np.ndarray, reach: int) -> dict[str, float]:
    table = [np.bincount(np.clip(x, -reach, reach) + reach, minlength=2 * reach + 1) for x in (draws, others)]
    return {"agreement": float(stats.chi2_contingency(table).pvalue)}


def refused(p_values: dict[str, float], level: float = LEVEL) -> list[str]:
    return [name for name, p in p_values.items() if not p >= level]


# Samplers that are wrong on purpose.


def width_off(law: Law, width: float) -> np.ndarray:
    """Be 2 % off, to the side that is allowed."""
    wrong = 1.02 * width if width < 1 else 0.98 * width
    return law.draw(wrong, DRAWS, generator=insecure_generator(11))


def without_sign(law: Law, width: float) -> np.ndarray:
    return np.abs(law.draw(width, DRAWS, generator=insecure_generator(12)))


def zero_twice(law: Law, width: float) -> np.ndarray:
    """Give zero twice its weight, as when both of its signs are accepted."""
    draws = law.draw(width, DRAWS, generator=insecure_generator(13))
    zero = float(law.pmf(0, width))
    draws[insecure_generator(14).random(DRAWS) < zero / (1 + zero)] = 0
    return draws


@pytest.mark.parametrize(("law", "width"), SMALL)
def test_small_widths_have_the_exact_masses(law: Law, width: float) -> None:
    draws = law.draw(width, DRAWS, generator=insecure_generator(1))
    assert not refused(mass_checks(draws, law, width) | zero_check(draws, law, width))
    assert not refused(independence_checks(draws))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [width_off, without_sign, zero_twice])
@pytest.mark.parametrize(("law", "width"), SMALL)
def test_the_mass_check_refuses_wrong_samplers(law: Law, width: float, wrong: Callable[..., np.ndarray]) -> None:
    assert refused(mass_checks(wrong(law, width), law, width)) == ["mass"]


@pytest.mark.slow
@pytest.mark.parametrize(("law", "width"), LARGE)
def test_large_widths_have_the_moments_tails_and_shape(law: Law, width: float) -> None:
    draws = law.draw(width, DRAWS, generator=insecure_generator(2))
    assert not refused(moment_and_tail_checks(draws, law, width) | zero_check(draws, law, width))
    assert not refused(independence_checks(draws))


@pytest.mark.slow
@pytest.mark.parametrize(("law", "width"), LARGE)
def test_the_large_checks_refuse_wrong_samplers(law: Law, width: float) -> None:
    off = refused(moment_and_tail_checks(width_off(law, width), law, width))
    assert {"variance", "distribution", "beyond 3"} <= set(off)
    unsigned = refused(moment_and_tail_checks(without_sign(law, width), law, width))
    assert {"mean", "distribution", "sign"} <= set(unsigned)
    if width == 1000:  # a doubled zero is visible only while zero is drawn at all
        assert refused(zero_check(zero_twice(law, width), law, width)) == ["zero"]


def test_the_independence_checks_refuse_a_sampler_that_repeats_itself() -> None:
    draws = discrete_gaussian(10, DRAWS, generator=insecure_generator(3))
    repeated = np.flatnonzero(insecure_generator(4).random(DRAWS - 1) < 0.02)
    draws[repeated + 1] = draws[repeated]
    assert refused(independence_checks(draws)) == ["lag", "pairs"]


@pytest.mark.slow
def test_opendp_draws_the_same_law() -> None:
    """OpenDP takes no seed, so the level is 1e-6; 2 % off is still refused with probability above 0.999."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    others = np.array(dp.m.make_gaussian(*space, scale=3.0)([0] * 300_000))
    draws = discrete_gaussian(3, DRAWS, generator=insecure_generator(5))
    wrong = discrete_gaussian(3 * 1.02, DRAWS, generator=insecure_generator(5))
    assert not refused(agreement_check(draws, others, reach=9), level=1e-6)
    assert refused(agreement_check(wrong, others, reach=9), level=1e-6)


@pytest.mark.slow
@both_laws
@pytest.mark.parametrize("width", [0.5, 0.7, 10.0, 2.0**40 - 0.3])
def test_draws_do_not_depend_on_where_the_buffer_ends(law: Law, width: float, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = law.draw(width, 3000, generator=insecure_generator(6))
    for most in (1, 2, 7):
        monkeypatch.setattr(samplers, "_MOST_WORDS", most)
        np.testing.assert_array_equal(law.draw(width, 3000, generator=insecure_generator(6)), whole)


@pytest.mark.slow
@both_laws
def test_many_small_calls_have_the_law_of_one_large_call(law: Law) -> None:
    generator = insecure_generator(7)
    draws = np.concatenate([law.draw(np.pi, 5, generator=generator) for _ in range(DRAWS // 50)])
    assert not refused(mass_checks(draws, law, np.pi) | independence_checks(draws))


def test_bit_generators_of_32_bit_words_serve_too() -> None:
    draws = discrete_gaussian(10, DRAWS, generator=np.random.Generator(np.random.MT19937(8)))
    assert not refused(mass_checks(draws, GAUSSIAN, 10) | independence_checks(draws))


@pytest.mark.parametrize(("law", "width"), SMALL)
def test_masses_sum_to_one(law: Law, width: float) -> None:
    k = np.arange(-500, 501)
    weights = np.exp(-0.5 * (k / width) ** 2) if law is GAUSSIAN else np.exp(-np.abs(k) / width)
    np.testing.assert_allclose(law.pmf(k, width), weights / weights.sum(), rtol=1e-12)


@both_laws
@pytest.mark.parametrize("width", [0, -1.0, np.nan, np.inf, 2.0**40 + 1, 1e-3, True, "1", None, 1j])
def test_bad_widths_are_refused(law: Law, width: object) -> None:
    with pytest.raises(InvalidInputError, match=r"expected (sigma|scale)"):
        law.draw(width, 3)
    with pytest.raises(InvalidInputError, match=r"expected (sigma|scale)"):
        law.pmf(0, width)


@both_laws
@pytest.mark.parametrize("size", [-1, 2.0, True, None, "3", (2, -1), (2, 1.5), [2, 3]])
def test_bad_sizes_are_refused(law: Law, size: object) -> None:
    with pytest.raises(InvalidInputError, match="size"):
        law.draw(1, size)


def test_a_bad_generator_or_seed_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="generator"):
        discrete_gaussian(1, 3, generator=np.random.RandomState(0))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="seed"):
        insecure_generator(-1)


@both_laws
def test_shape_and_type(law: Law) -> None:
    for size, shape in ((0, (0,)), (4, (4,)), ((), ()), ((2, 3), (2, 3)), ((2, 0), (2, 0)), (np.int64(3), (3,))):
        draws = law.draw(2, size)
        assert draws.shape == shape
        assert draws.dtype == np.int64


@both_laws
def test_a_seed_repeats_and_security_does_not(law: Law) -> None:
    first, again, other = (law.draw(1e6, 50, generator=insecure_generator(seed)) for seed in (9, 9, 10))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(law.draw(1e6, 50), law.draw(1e6, 50))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_draws_other_noise() -> None:
    discrete_gaussian(1e6, 50)  # so that parent and child share whatever state there is to share
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, discrete_gaussian(1e6, 50).tobytes())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    drawn = np.frombuffer(os.read(read, 400), dtype=np.int64)
    assert not np.array_equal(drawn, discrete_gaussian(1e6, 50))


@pytest.mark.slow
def test_importing_the_module_compiles_nothing() -> None:
    script = "import sys, tacit.privacy.noise; print({'numba', 'randomgen', 'cryptography'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "set()"

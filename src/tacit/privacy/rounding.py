"""Printed numbers, rounded in the safe direction.

A printed guarantee must never claim more than was computed: losses (epsilon, delta, the factor) are rounded up, noise and
what is left of a budget are rounded down. Rounding is decimal and starts from the shortest decimal that stands for the
float, so that 0.1 prints as 0.1 and `float` of the printed text is never on the wrong side of the value.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

EPSILON_DIGITS = 4
"""Significant digits of a printed epsilon: a thousandth is finer than any decision about epsilon."""
DELTA_DIGITS = 3
"""Significant digits of a printed delta."""
FACTOR_DIGITS = 3
"""Significant digits of what e^epsilon exceeds 1 by, so that e^1 prints as 2.72 and e^0.01 as 1.0101."""
_LARGEST_FACTOR_PRINTED = 700.0
"""Above this epsilon only the power is printed; e^700, about 1e304, means nothing to a reader."""
_PLAIN = range(-9, 9)
"""Powers of ten of the first digit for which a number is printed without an exponent: 0.000000001 to 999999999."""


def rounded_up(value: float, digits: int = EPSILON_DIGITS) -> str:
    """Return `value` with that many significant digits, never less than it is: for epsilon, delta and rates."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = EPSILON_DIGITS) -> str:
    """Return `value` with that many significant digits, never more than it is: for noise and remaining budgets."""
    return _rounded(value, digits, ROUND_FLOOR)


def exact(value: float) -> str:
    """Return all digits of `value`: for limits that somebody set, where rounding either way would be wrong."""
    return _rounded(value, 17, ROUND_CEILING)  # 17 digits hold every float


def shown_epsilon(epsilon: float) -> str:
    """Return epsilon as it is printed, rounded up."""
    return rounded_up(epsilon, EPSILON_DIGITS)


def shown_delta(delta: float) -> str:
    """Return delta as it is printed, rounded up."""
    return rounded_up(delta, DELTA_DIGITS)


def shown_factor(epsilon: float) -> str:
    """Return e^epsilon, rounded up, with its power: "2.72 (e^1)"; the power is epsilon as it is printed."""
    power = shown_epsilon(epsilon)
    if not epsilon <= _LARGEST_FACTOR_PRINTED:
        return f"e^{power}"
    exponent = Decimal(power)
    # enough digits for the first ones of e^epsilon - 1, which is about epsilon where epsilon is small
    context = Context(prec=30 - min(exponent.adjusted(), 0), rounding=ROUND_CEILING)
    factor = context.exp(exponent)
    excess = context.subtract(factor, Decimal(1))
    place = excess.adjusted() - FACTOR_DIGITS + 1 if excess else 0
    return f"{_text(factor.quantize(Decimal(1).scaleb(place), context=context))} (e^{power})"


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return "infinity" if value > 0 else "-infinity" if value < 0 else "not a number"
    number = Decimal(repr(float(value)))
    if not number:
        return "0"
    place = number.adjusted() - digits + 1
    return _text(number.quantize(Decimal(1).scaleb(place), rounding=rounding, context=Context(prec=digits + 1)))


def _text(number: Decimal) -> str:
    number = number.normalize(Context(prec=400))  # more digits than any number here has: only zeros are dropped
    if number.adjusted() in _PLAIN:
        return f"{number:f}"
    return f"{number:e}".replace("e+", "e")

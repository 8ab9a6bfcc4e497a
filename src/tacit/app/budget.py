"""What a ledger says to a person: what a plan would cost, what was charged, and a picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tacit.errors import TacitError
from tacit.privacy.calibration import gaussian_noise_multiplier
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Account, Charge, Ledger, Remaining
from tacit.privacy.releases import GaussianRelease
from tacit.validation import check_epsilon, check_fit_delta

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 240, 56, 16, 16, 40
"""Of the picture, in its own units."""


@dataclass(frozen=True)
class PlannedCharge:
    """What a fit would guarantee and cost.

    Attributes
    ----------
    sentence : str
        The guarantee in words.
    now, after : Remaining or None
        What the account has spent, and would have; None if there is no account.
    fits : float
        The largest epsilon that the account still allows, at the planned delta.
    wrong : dict of str to str
        What is wrong, by field.
    """

    sentence: str
    now: Remaining | None
    after: Remaining | None
    fits: float
    wrong: dict[str, str]


def planned(epsilon: str, delta: str, unit: str, book: Ledger | None, account: str) -> PlannedCharge:
    """Return the plan of a private fit with this budget.

    The cost is that of one Gaussian release with this epsilon and delta. A fit that asks for several sums plans them to cost the
    same together. What a run is charged is decided when it starts, from its own plan.
    """
    wrong = {}
    values = {}
    for name, text, check in (("epsilon", epsilon, check_epsilon), ("delta", delta, check_fit_delta)):
        try:
            values[name] = check(_number(text))
        except TacitError as error:
            wrong[name] = error.fix
    if wrong:
        return PlannedCharge("", None, None, 0.0, wrong)
    noise = gaussian_noise_multiplier(values["epsilon"], values["delta"])
    guarantee = Guarantee.from_releases([GaussianRelease(noise_multiplier=noise)], delta=values["delta"], unit=unit)
    sentence = str(guarantee).partition(". ")[0] + "."
    if book is None or account not in book.datasets():
        return PlannedCharge(sentence, None, None, 0.0, {})
    terms = book.account(account)
    if (terms.unit, terms.adjacency) != (guarantee.unit, guarantee.adjacency):
        wrong["account"] = (
            f"The account {account!r} protects a {terms.unit} ({terms.adjacency}); this question protects a {unit}. Give the "
            "data set a name of its own."
        )
        return PlannedCharge(sentence, book.remaining(account), None, 0.0, wrong)
    fits = book.affordable(account, values["delta"])
    if not book.can_afford(account, guarantee):
        wrong["epsilon"] = (
            f"This is more than the account has left: at most epsilon {fits:.4g} still fits at this delta."
        )
    return PlannedCharge(sentence, book.remaining(account), book.remaining(account, after=guarantee), fits, wrong)


def charges_during(book: Ledger | None, account: str, started: str, ended: str) -> list[Charge]:
    """Return what an account was charged with from the start of a run to its end, or to now."""
    if book is None or not account or not started or account not in book.datasets():
        return []
    first = datetime.fromisoformat(started)
    last = datetime.fromisoformat(ended) + timedelta(seconds=1) if ended else datetime.now(UTC)
    return [charge for charge in book.history(account) if first <= datetime.fromisoformat(charge.time) <= last]


@dataclass(frozen=True)
class Picture:
    """The history of an account as points of a drawing: a line that climbs with each charge, below that of the budget."""

    line: str
    points: list[tuple[float, float, str]]
    budget: float
    ticks: list[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    base: int = HEIGHT - BOTTOM
    right: int = WIDTH - RIGHT


def picture(account: Account, charges: Sequence[Charge]) -> Picture:
    """Return the picture of an account's charges, oldest first; later settlements are in the next charge's total."""
    top = account.epsilon * 1.08

    def height(epsilon: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(epsilon, top) / top, 1)

    step = (WIDTH - LEFT - RIGHT) / max(len(charges), 1)
    x, y = float(LEFT), height(0.0)
    line, points = [f"M{x:g} {y:g}"], []
    for place, charge in enumerate(charges):
        x, y = round(LEFT + step * (place + 0.5), 1), height(charge.epsilon_after)
        line.append(f"H{x:g} V{y:g}")
        points.append((x, y, f"{charge.time[:10]}: {charge.purpose}"))
    line.append(f"H{WIDTH - RIGHT}")
    ticks = [(height(account.epsilon * part), f"{account.epsilon * part:.3g}") for part in (0.0, 0.5, 1.0)]
    return Picture(" ".join(line), points, height(account.epsilon), ticks)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text

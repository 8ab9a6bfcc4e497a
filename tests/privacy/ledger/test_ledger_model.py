"""Random sequences of operations on a ledger, against a model of a few lines."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import BudgetError, InvalidInputError, LedgerError
from tacit.privacy import Accountant, GaussianRelease, Guarantee
from tacit.privacy.ledger import Ledger

DELTA = 1e-6


def gaussian(noise: float, count: int) -> Guarantee:
    return Guarantee.from_releases([GaussianRelease(noise_multiplier=noise, count=count)], delta=DELTA)


names = st.sampled_from(["a", "b"])
noises = st.sampled_from([5.0, 8.0, 13.0])
counts = st.integers(1, 4)
operations = st.one_of(
    st.tuples(st.just("open"), names, st.sampled_from([0.5, 1.5, 3.0])),
    st.tuples(st.just("charge"), names, noises, counts),
    st.tuples(st.just("charge"), names, noises, counts),
    st.tuples(st.just("settle"), st.integers(0, 5), noises, counts),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(operations, max_size=14))
def test_any_sequence_of_operations_does_what_a_simple_model_does(steps: list[tuple[object, ...]]) -> None:
    budgets: dict[str, float] = {}
    spent: dict[str, list[tuple[float, int]]] = {}
    charges: list[tuple[object, str, int]] = []  # the charge, and where the model keeps it
    settled: set[int] = set()

    def total(name: str, *further: tuple[float, int]) -> float:
        releases = tuple(GaussianRelease(noise_multiplier=n, count=c) for n, c in [*spent[name], *further])
        return Accountant("add-remove", releases).epsilon(DELTA)

    with tempfile.TemporaryDirectory() as folder:
        ledger, written = Ledger(Path(folder) / "ledger.db"), 0
        for step in steps:
            match step:
                case ("open", name, epsilon):
                    expected: type[Exception] | None = LedgerError if name in budgets else None
                    action = lambda: ledger.open_account(name, epsilon, DELTA)  # noqa: B023, E731
                case ("charge", name, noise, count):
                    expected = LedgerError if name not in budgets else None
                    if expected is None and total(name, (noise, count)) > budgets[name]:
                        expected = BudgetError
                    action = lambda: ledger.charge(name, gaussian(noise, count), "x")  # noqa: B023, E731
                case ("settle", index, noise, count):
                    if index >= len(charges):
                        continue
                    charge, name, place = charges[index]
                    charged_noise, charged_count = spent[name][place]
                    fits = noise == charged_noise and count <= charged_count
                    expected = LedgerError if index in settled else None if fits else InvalidInputError
                    action = lambda: ledger.settle(charge, gaussian(noise, count))  # noqa: B023, E731
            if expected is not None:
                with pytest.raises(expected):
                    action()
                continue
            outcome, written = action(), written + 1
            if step[0] == "open":
                budgets[name], spent[name] = epsilon, []
            elif step[0] == "charge":
                charges.append((outcome, name, len(spent[name])))
                spent[name].append((noise, count))
            else:
                settled.add(index)
                spent[name][place] = (noise, count)
        assert ledger.verify() == written
        assert sorted(ledger.datasets()) == sorted(budgets)
        for name, budget in budgets.items():
            assert ledger.remaining(name).spent == total(name) <= budget
            found = [(r.noise_multiplier, r.count) for charge in ledger.history(name) for r in charge.effective]
            assert found == spent[name]

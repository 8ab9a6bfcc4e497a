"""A guarantee is computed from releases, prints as a sentence, and cannot be talked up."""

import dataclasses
import json
import math

import pytest

from tacit.errors import InvalidInputError
from tacit.privacy import ExponentialRelease, GaussianRelease, Guarantee, gaussian_epsilon
from tacit.privacy.guarantee import shown_epsilon

RELEASES = [GaussianRelease(name="WX+WW", noise_multiplier=6.0, count=4), ExponentialRelease(epsilon=0.2)]


def test_epsilon_is_what_the_releases_cost():
    found = Guarantee.from_releases(RELEASES[:1], delta=1e-6, unit="user", adjacency="replace-one")
    assert found.epsilon == pytest.approx(gaussian_epsilon(6.0, 1e-6, steps=4, adjacency="replace-one"))
    assert found.holds


@pytest.mark.parametrize("unit", ["cell", "row", "user", "site"])
@pytest.mark.parametrize(("adjacency", "phrase"), [("add-remove", "added or removed"), ("replace-one", "replaced")])
def test_the_sentence_names_everything_that_matters(unit, adjacency, phrase):
    found = Guarantee.from_releases(
        RELEASES, delta=1e-6, unit=unit, adjacency=adjacency, trust="the hospital", assumptions=["ids are public"]
    )
    sentence = str(found)
    for part in (
        shown_epsilon(found.epsilon),
        "1e-06",
        f"any one {unit}",
        phrase,
        "5 recorded releases",
        "the hospital",
    ):
        assert part in sentence
    assert sentence.endswith("Assumes: ids are public.")


def test_nothing_released_costs_nothing():
    assert Guarantee.from_releases([], delta=1e-6).epsilon == 0


def test_no_guarantee_and_measured_only_say_so():
    assert str(Guarantee.none("the start saw the data")) == "No privacy guarantee: the start saw the data"
    assert str(Guarantee.measured("p = 0.4")).startswith("Measured only, not a guarantee")
    assert not Guarantee.none("x").holds
    assert not Guarantee.measured("x").holds
    assert Guarantee.none("x").to_dict()["epsilon"] is None


def test_a_voided_guarantee_keeps_its_releases_but_promises_nothing():
    found = Guarantee.from_releases(RELEASES, delta=1e-6).voided("seeded")
    assert not found.holds
    assert found.epsilon == math.inf
    assert len(found.releases) == 2
    assert str(found) == "No privacy guarantee: seeded"


@pytest.mark.parametrize(
    "guarantee",
    [Guarantee.from_releases(RELEASES, delta=1e-6, assumptions=["a"]), Guarantee.none("why"), Guarantee.measured("p")],
)
def test_survives_json(guarantee):
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_a_record_that_claims_less_than_its_releases_cost_is_refused():
    record = Guarantee.from_releases(RELEASES, delta=1e-6).to_dict()
    record["epsilon"] /= 2
    with pytest.raises(InvalidInputError, match="releases earn"):
        Guarantee.from_dict(record)


def test_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Guarantee.none("x").epsilon = 0.1


@pytest.mark.parametrize("settings", [{"unit": "planet"}, {"adjacency": "near"}, {"delta": 2.0}])
def test_bad_terms(settings):
    with pytest.raises(InvalidInputError):
        Guarantee.from_releases(RELEASES, **{"delta": 1e-6, **settings})


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(1.0, "1"), (0.123412, "0.1235"), (12.3401, "12.35"), (3e-5, "3e-05"), (0.99999, "1")]
)
def test_printed_epsilon_is_rounded_up(epsilon, shown):
    assert shown_epsilon(epsilon) == shown
    assert float(shown_epsilon(epsilon)) >= epsilon * (1 - 1e-9)

"""A guarantee is computed from releases, prints as plain sentences, and never claims more than was earned."""

import dataclasses
import json
import math

import pytest

from tacit.errors import InvalidInputError
from tacit.privacy import (
    ApproximateRelease,
    ExponentialRelease,
    GaussianRelease,
    Guarantee,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)

RELEASES = [GaussianRelease(name="WX+WW", noise_multiplier=6.0, count=4), ExponentialRelease(epsilon=0.2)]
EPSILON_ONE = GaussianRelease(noise_multiplier=gaussian_noise_multiplier(1.0, 1e-6))
METHOD = "exact Gaussian composition (Balle & Wang 2018)"


def test_epsilon_is_what_the_releases_cost():
    found = Guarantee.from_releases(RELEASES[:1], delta=1e-6, unit="user", adjacency="replace-one")
    assert found.epsilon == pytest.approx(gaussian_epsilon(6.0, 1e-6, steps=4, adjacency="replace-one"))
    assert found.holds


def test_the_whole_text():
    found = Guarantee.from_releases([EPSILON_ONE], delta=1e-6, assumptions=["ids are public", "n is at most 9"])
    assert str(found) == (
        "Adding or removing any one row changes the probability of any result by at most a factor of 2.72 (e^1), plus "
        "0.000001. This is differential privacy per row with epsilon 1 and delta 0.000001. It was computed from 1 recorded "
        f"release by {METHOD}. Only the data holder, who sees the data, must be trusted. The guarantee assumes that ids are "
        "public; that n is at most 9."
    )


@pytest.mark.parametrize(
    ("unit", "adjacency", "change"),
    [
        ("cell", "add-remove", "Adding or removing any one cell"),
        ("row", "add-remove", "Adding or removing any one row"),
        ("user", "add-remove", "Adding or removing all data of any one user"),
        ("site", "add-remove", "Adding or removing all data of any one site"),
        ("cell", "replace-one", "Replacing any one cell by any other cell"),
        ("row", "replace-one", "Replacing any one row by any other row"),
        ("user", "replace-one", "Replacing all data of any one user by any other data"),
        ("site", "replace-one", "Replacing all data of any one site by any other data"),
    ],
)
def test_the_first_sentence_says_what_changes(unit, adjacency, change):
    doubling = 2 if adjacency == "replace-one" else 1
    noise = dataclasses.replace(EPSILON_ONE, noise_multiplier=doubling * EPSILON_ONE.noise_multiplier)
    found = Guarantee.from_releases([noise], delta=1e-6, unit=unit, adjacency=adjacency, trust="Trust the hospital")
    assert str(found).startswith(
        f"{change} changes the probability of any result by at most a factor of 2.72 (e^1), plus 0.000001. "
        f"This is differential privacy per {unit} with"
    )
    assert " Trust the hospital." in str(found)


def test_nothing_released_costs_nothing():
    found = Guarantee.from_releases([], delta=1e-6)
    assert found.epsilon == 0
    assert str(found).startswith("Nothing was released, so adding or removing any one row changes no result.")


def test_no_guarantee_and_measured_only_say_so():
    assert str(Guarantee.none("the start saw the data")) == (
        "This result has no privacy guarantee: the start saw the data."
    )
    assert str(Guarantee.measured("p = 0.4.")) == "This is a measurement, not a privacy guarantee: p = 0.4."
    assert not Guarantee.none("x").holds
    assert not Guarantee.measured("x").holds
    assert Guarantee.none("x").to_dict()["epsilon"] is None


def test_too_little_noise_is_no_guarantee():
    for release in (ApproximateRelease(epsilon=1.0, delta=0.1), GaussianRelease(noise_multiplier=1e-200)):
        found = Guarantee.from_releases([release], delta=1e-6)
        assert found.epsilon == math.inf
        assert str(found).startswith("This result has no privacy guarantee: the noise is too small")


def test_a_voided_guarantee_keeps_its_releases_but_promises_nothing():
    found = Guarantee.from_releases(RELEASES, delta=1e-6).voided("seeded")
    assert not found.holds
    assert found.epsilon == math.inf
    assert len(found.releases) == 2
    assert str(found) == "This result has no privacy guarantee: seeded."


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee.from_releases(RELEASES, delta=1e-6, assumptions=["a"]),
        Guarantee.from_releases(RELEASES, delta=1e-6, unit="user", adjacency="replace-one").voided("seeded"),
        Guarantee.from_releases([ApproximateRelease(epsilon=1.0, delta=0.1)], delta=1e-6),
        Guarantee.from_releases([], delta=1e-6),
        Guarantee.none("why"),
        Guarantee.measured("p"),
    ],
)
def test_survives_json(guarantee):
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Guarantee.none("x").epsilon = 0.1


@pytest.mark.parametrize("settings", [{"unit": "planet"}, {"adjacency": "near"}, {"delta": 2.0}])
def test_bad_terms(settings):
    with pytest.raises(InvalidInputError):
        Guarantee.from_releases(RELEASES, **{"delta": 1e-6, **settings})

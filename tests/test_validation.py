"""The delta of private fits: a public limit that refuses, and a warning for the holder that depends on the data."""

import warnings

import numpy as np
import pytest

from tacit import PrivateMoments, PrivateNMF, PrivateRecommender, PrivateTable
from tacit.channel import Plan
from tacit.data import NumberColumn, make_images, make_ratings
from tacit.errors import InvalidInputError, PrivacyWarning
from tacit.privacy import published
from tacit.privacy.vocabulary import private_vocabulary
from tacit.validation import check_fit_delta, warn_about_delta

IMAGES = make_images(300, side=6, n_parts=2).images
RATINGS = make_ratings(200, 20, ratings_per_user=8, random_state=3)

FITS = {
    "moments": lambda delta: PrivateMoments(epsilon=1.0, delta=delta).fit(IMAGES),
    "nmf": lambda delta: PrivateNMF(2, epsilon=1.0, delta=delta).fit(IMAGES),
    "rounds": lambda delta: PrivateNMF(2, epsilon=1.0, delta=delta, method="rounds", rounds=2).fit(IMAGES),
    "recommender": lambda delta: PrivateRecommender(2, epsilon=1.0, delta=delta).fit(
        RATINGS.users, RATINGS.items, RATINGS.ratings
    ),
    "table": lambda delta: PrivateTable(epsilon=1.0, delta=delta, schema=NumberColumn(0, 1)).fit(IMAGES),
    "vocabulary": lambda delta: private_vocabulary(["the moon"] * 300, epsilon=1.0, delta=delta),
    "plan": lambda delta: Plan.for_budget(1.0, delta),
}


@pytest.mark.parametrize("name", FITS)
def test_a_private_fit_refuses_a_large_delta(name):
    with pytest.raises(InvalidInputError, match=r"at most 0\.01"):
        FITS[name](0.02)


@pytest.mark.parametrize("delta", [0.0100001, 0.5, 0.99])
def test_the_limit_does_not_depend_on_the_data(delta):
    with pytest.raises(InvalidInputError, match=r"at most 0\.01"):
        check_fit_delta(delta)
    assert check_fit_delta(0.01) == 0.01


def test_papers_can_be_reproduced_with_their_deltas():
    model = PrivateNMF(2, epsilon=0.5, delta=0.05, method="published", rounds=2)
    assert not model.fit(np.abs(IMAGES)).guarantee_.holds
    assert published.saha_noise_multiplier(1.0, 0.05, 10) > 0


def test_the_holder_is_warned_of_a_delta_that_is_not_below_one_over_the_units():
    with pytest.warns(PrivacyWarning, match="For the holder only"):
        warn_about_delta(1e-3, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_delta(1e-3, 999)
        warn_about_delta(0.01, 0)


@pytest.mark.parametrize("name", [name for name in FITS if name != "plan"])
def test_a_private_fit_warns_its_holder(name):
    with pytest.warns(PrivacyWarning, match="For the holder only"):
        FITS[name](0.008)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="For the holder only")
        FITS[name](0.002)

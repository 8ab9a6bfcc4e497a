"""Checks that all estimators share: the delta of private fits, public ranges, and columns of dates."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tacit import (
    NMF,
    SVD,
    PrincipalComponentRegression,
    PrivateMoments,
    PrivateNMF,
    PrivateRecommender,
    PrivateTable,
    Recommender,
    Relation,
)
from tacit.channel import Plan
from tacit.data import NumberColumn, make_images, make_ratings
from tacit.errors import InvalidInputError, PrivacyWarning
from tacit.privacy import published
from tacit.privacy.vocabulary import private_vocabulary
from tacit.validation import check_fit_delta, check_range, warn_about_delta

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


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FITS if name != "plan"])
def test_a_private_fit_warns_its_holder(name):
    with pytest.warns(PrivacyWarning, match="For the holder only"):
        FITS[name](0.008)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="For the holder only")
        FITS[name](0.002)


DAYS = np.arange("2020-01-01", "2020-02-10", dtype="datetime64[D]")
NUMBERS = np.linspace(0, 1, len(DAYS))
DATED = {
    "polars dates": pl.DataFrame({"size": NUMBERS, "born": DAYS}),
    "polars durations": pl.DataFrame({"size": NUMBERS, "born": (DAYS - DAYS[0]).astype("timedelta64[ms]")}),
    "pandas dates": pd.DataFrame({"size": NUMBERS, "born": pd.to_datetime(DAYS)}),
    "pandas durations": pd.DataFrame({"size": NUMBERS, "born": pd.to_timedelta(DAYS - DAYS[0])}),
    "pandas dates only": pd.DataFrame({"born": pd.to_datetime(DAYS)}),
}


@pytest.mark.parametrize("estimator", [PrivateMoments(epsilon=1.0), NMF(1), SVD(1)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("frame", DATED.values(), ids=DATED)
def test_columns_of_dates_are_refused_by_name(frame, estimator):
    """Numpy would make them counts of days or nanoseconds, and their numbers would drown all other columns."""
    with pytest.raises(InvalidInputError, match=r"dates, times or durations in column 'born'"):
        estimator.fit(frame)


@pytest.mark.parametrize(
    "use",
    [
        lambda: PrivateMoments(epsilon=1.0).fit(DAYS[:, None]),
        lambda: PrincipalComponentRegression(1).fit(np.stack([NUMBERS, NUMBERS**2], axis=1), DAYS),
        lambda: PrincipalComponentRegression(1).fit(np.stack([NUMBERS, NUMBERS**2], axis=1), pl.Series(DAYS)),
        lambda: Recommender(1).fit(pl.DataFrame({"user": [1, 2], "item": [1, 1], "rating": DAYS[:2]})),
        lambda: Recommender(1).fit([1, 2], [1, 1], pd.Series(pd.to_datetime(DAYS[:2]))),
        lambda: Relation(DAYS[:, None], "ir,jr->ij", ("a", "b")),
    ],
    ids=["array", "targets", "series", "frame of ratings", "ratings", "relation"],
)
def test_dates_are_refused_wherever_numbers_are_expected(use):
    with pytest.raises(InvalidInputError, match="dates, times or durations"):
        use()


def test_frames_of_numbers_and_truth_values_are_accepted():
    frame = pl.DataFrame({"size": NUMBERS, "tall": NUMBERS > 0.5})
    assert PrivateMoments(epsilon=1.0).fit(frame).mean_.shape == (2,)
    assert PrivateMoments(epsilon=1.0).fit(pd.DataFrame(frame.to_dict(as_series=False))).mean_.shape == (2,)


@pytest.mark.parametrize("good", [(1, 5), [0.0, 0.5], np.array([-1.0, 1.0])])
def test_a_public_range_is_two_ascending_numbers(good):
    assert check_range(good, "value_range") == tuple(map(float, good))


@pytest.mark.parametrize(
    "bad", [None, 3, "15", (1,), (1, 2, 3), (2, 2), (2, 1), (0, np.inf), (np.nan, 1), ("a", "b"), (0, True)]
)
def test_other_ranges_are_refused(bad):
    with pytest.raises(InvalidInputError, match=r"value_range to be two finite numbers.*value_range=\(0, 1\)"):
        check_range(bad, "value_range")

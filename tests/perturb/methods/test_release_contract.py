"""Properties of every method: a table of the same form, the requested distortion, and clear refusals."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from perturbed_tables import LABELS, METHODS, TABLE, make_table
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from tacit.errors import InvalidInputError
from tacit.measure import value_difference
from tacit.perturb import AdditiveNoise, CompressedNMF, ConstrainedNMF, NMFRelease, TruncatedSVDRelease

NAMES = ["height", "weight", "age", "dose"]
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def own_names(method):
    return {"level": None, method._level_name: None}


@each_method
def test_a_release_is_repeatable_and_has_the_distortion_it_states(method):
    first, second = clone(method), clone(method)
    released = first.fit_transform(TABLE, LABELS)
    np.testing.assert_array_equal(released, second.fit_transform(TABLE, LABELS))
    assert first.distortion_ == pytest.approx(np.linalg.norm(TABLE - released) / np.linalg.norm(TABLE))
    assert 0 < first.distortion_ < 1
    assert not first.guarantee_.holds
    assert "nothing is proven" in str(first.guarantee_)


@pytest.mark.slow
@each_method
def test_a_wanted_distortion_is_reached(method):
    at_its_setting = clone(method).fit(TABLE, LABELS).distortion_
    for target in (0.97 * at_its_setting, 1.02 * at_its_setting):
        asked = clone(method).set_params(**own_names(method), target_distortion=target)
        released = asked.fit_transform(TABLE, LABELS)
        assert abs(value_difference(TABLE, released) - target) <= 0.02 * target
        assert asked.distortion_ == pytest.approx(value_difference(TABLE, released))


@each_method
def test_the_setting_has_two_names_and_one_way_of_being_given(method):
    by_level = clone(method).set_params(**own_names(method))
    by_level.set_params(level=getattr(method, method._level_name))
    np.testing.assert_array_equal(by_level.fit_transform(TABLE, LABELS), clone(method).fit_transform(TABLE, LABELS))
    with pytest.raises(InvalidInputError, match="exactly one of them"):
        clone(method).set_params(target_distortion=0.1).fit(TABLE, LABELS)
    with pytest.raises(InvalidInputError, match=r"level|beta|rank|percent|radius"):
        clone(method).set_params(**{method._level_name: "much"}).fit(TABLE, LABELS)


@each_method
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_data_frames_keep_names_order_and_what_was_not_chosen(method, library):
    columns = dict(zip(NAMES, TABLE.T, strict=True))
    frame = library.DataFrame({"name": [f"row {i}" for i in range(len(TABLE))], **columns})
    if library is pd:
        frame.index = pd.Index(np.arange(len(frame))[::-1] * 7, name="patient")
    released = clone(method).set_params(unchanged=["name"]).fit_transform(frame, LABELS)
    assert type(released) is type(frame)
    assert list(released.columns) == list(frame.columns)
    assert list(released["name"]) == list(frame["name"])
    np.testing.assert_allclose(
        np.column_stack([released[name] for name in NAMES]), clone(method).fit_transform(TABLE, LABELS)
    )
    if library is pd:
        assert released.index.equals(frame.index)


@each_method
def test_only_chosen_columns_change(method):
    frame = pl.DataFrame(dict(zip(NAMES, TABLE.T, strict=True)))
    some = clone(method).set_params(columns=["dose", "height"], unchanged=["weight", "age"])
    released = some.fit_transform(frame, LABELS)
    assert released.columns == NAMES
    assert released["weight"].equals(frame["weight"])
    assert released["age"].equals(frame["age"])
    assert not released["dose"].equals(frame["dose"])
    # the same by column number, in an array
    array = clone(method).set_params(columns=[3, 0], unchanged=[1, 2]).fit_transform(TABLE, LABELS)
    np.testing.assert_allclose(array[:, [3, 0]], released.select("dose", "height").to_numpy())
    np.testing.assert_array_equal(array[:, [1, 2]], TABLE[:, [1, 2]])
    # and the distortion is that of the chosen ones
    assert some.distortion_ == pytest.approx(value_difference(TABLE[:, [3, 0]], array[:, [3, 0]]))


@each_method
def test_other_rows_are_released_at_the_same_setting(method):
    fitted = clone(method).fit(TABLE, LABELS)
    fresh, _ = make_table(rows=20, seed=5)
    released = fitted.transform(fresh)
    assert released.shape == fresh.shape
    assert 0 < value_difference(fresh, released) < 3 * fitted.distortion_ + 0.1
    np.testing.assert_array_equal(released, fitted.transform(fresh))


@each_method
def test_missing_values_are_refused_or_filled_and_counted(method):
    gaps = TABLE.copy()
    gaps[[3, 50, 80], [0, 1, 1]] = np.nan
    with pytest.raises(InvalidInputError, match="missing values in the columns 0, 1"):
        clone(method).fit(gaps, LABELS)
    filling = clone(method).set_params(missing="mean")
    released = filling.fit_transform(gaps, LABELS)
    assert filling.n_imputed_ == 3
    assert np.isfinite(released).all()
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    np.testing.assert_allclose(released, clone(method).fit_transform(filled, LABELS))
    # new rows are filled with what the fit learned
    filling.transform(np.where(np.arange(4) == 2, np.nan, TABLE[:2]))
    assert filling.n_imputed_ == 2


@each_method
@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (TABLE[:1], "at least two rows"),
        (np.column_stack([TABLE, np.ones(len(TABLE))]), "same value in every row of 4"),
        (np.where(np.eye(len(TABLE), 4) > 0, np.inf, TABLE), "infinite numbers"),
        (TABLE.astype(str) + "x", "a table of numbers"),
        (TABLE[:, 0], "a table of numbers"),
        (pl.DataFrame({"a": TABLE[:, 0], "text": ["x"] * len(TABLE)}), "name them in unchanged="),
        (pl.DataFrame({"text": ["x"] * len(TABLE)}), "other kinds in the columns text"),
    ],
    ids=["one row", "constant", "infinite", "text", "one column", "text column", "text only"],
)
def test_tables_that_cannot_be_released_are_refused(method, table, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        clone(method).fit(table, LABELS[: len(table)])


@each_method
def test_wrong_choices_are_refused(method):
    frame = pl.DataFrame({"a": TABLE[:, 0], "b": TABLE[:, 1], "text": ["x"] * len(TABLE)})
    for settings, complaint in [
        ({"columns": ["a", "c"]}, "which the table does not have"),
        ({"columns": ["a", "a"]}, "each once"),
        ({"columns": ["a", "b", "text"], "unchanged": ()}, "numeric columns to change"),
        ({"columns": ["a"]}, "neither for b"),
        ({"columns": ["a", "b"], "unchanged": ["b", "text"]}, "both for b"),
        ({"unchanged": ["a", "b", "text"]}, "at least one column to change"),
        ({"unchanged": ["c"]}, "which the table does not have"),
        ({"missing": "zero"}, "missing to be one of"),
        ({"scale": "log"}, "scale to be one of"),
    ]:
        with pytest.raises(InvalidInputError, match=complaint):
            clone(method).set_params(**{"unchanged": ["text"], **settings}).fit(frame, LABELS)
    with pytest.raises(InvalidInputError, match="same columns"):
        clone(method).fit(TABLE, LABELS).transform(TABLE[:, :3])


def test_columns_that_look_like_identifiers_are_refused_unless_named():
    columns = dict(zip(NAMES, TABLE.T, strict=True))
    numbers = np.random.default_rng(0).permutation(len(TABLE))
    method = AdditiveNoise(0.1, random_state=0)
    for name in ("patient_id", "number"):
        frame = pl.DataFrame({**columns, name: numbers})
        with pytest.raises(InvalidInputError, match=f"look like identifiers; got {name}"):
            method.fit(frame)
        released = clone(method).set_params(unchanged=[name]).fit_transform(frame)
        assert released[name].equals(frame[name])
        released = clone(method).set_params(columns=[*NAMES, name]).fit_transform(frame)
        assert not released[name].equals(frame[name])
    method.fit(pl.DataFrame({**columns, "number": numbers // 2}))


@each_method
def test_a_distortion_out_of_reach_says_the_largest(method):
    asked = clone(method).set_params(**own_names(method), target_distortion=50.0)
    if isinstance(method, AdditiveNoise):  # noise has no end
        assert asked.fit(TABLE, LABELS).distortion_ == pytest.approx(50, rel=0.02)
        return
    with pytest.raises(InvalidInputError, match=r"the largest is [\d.]+") as refused:
        asked.fit(TABLE, LABELS)
    largest = float(str(refused.value).split("the largest is ")[1].split()[0])
    reached = asked.set_params(target_distortion=largest).fit(TABLE, LABELS)
    assert reached.distortion_ == pytest.approx(largest, rel=0.02)


@pytest.mark.parametrize("method", [TruncatedSVDRelease(), NMFRelease(), ConstrainedNMF(n_clusters=2)])
def test_a_method_with_a_floor_says_the_smallest(method):
    # rank 2 cannot be this near to a table of rank 4; the other methods can reach any small distortion
    asked = clone(method).set_params(target_distortion=1e-6)
    if isinstance(method, ConstrainedNMF):
        with pytest.raises(InvalidInputError, match="the smallest for this table"):
            asked.fit(TABLE)
    else:
        asked.set_params(target_distortion=0.001).fit(TABLE)
        assert asked.distortion_ == pytest.approx(0.001, rel=0.02)


def test_without_a_seed_no_two_releases_are_alike_and_with_one_no_two_tables_share_noise():
    method = AdditiveNoise(0.1)
    assert not np.array_equal(method.fit_transform(TABLE), method.fit_transform(TABLE))
    seeded = AdditiveNoise(0.1, scale="none", random_state=3).fit(TABLE)
    shifted = TABLE + 1.0
    first, second = seeded.transform(TABLE) - TABLE, seeded.transform(shifted) - shifted
    assert np.abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.2


def test_negative_tables_are_factorised_in_range_or_refused():
    for method in (NMFRelease(2), ConstrainedNMF(0.5), CompressedNMF(0.5)):
        assert clone(method).fit(TABLE - 5).distortion_ > 0
        with pytest.raises(InvalidInputError, match="scale='range'"):
            clone(method).set_params(scale="none").fit(TABLE - 5)


@pytest.mark.parametrize("name", ["cnmf", "comnmf", "hide"])
def test_more_clusters_than_distinct_rows_are_refused(name):
    few = np.repeat(TABLE[[0, 50]], 10, axis=0)
    with pytest.raises(InvalidInputError, match="at most 2, the number of distinct rows"):
        clone(METHODS[name]).fit(few)


CHECKED = ["uniform noise", "svd", "nmf", "cnmf", "comnmf", "cap", "nap"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{name}: {check.func.__name__}")
        for name in CHECKED
        for estimator, check in estimator_checks_generator(
            clone(METHODS[name]).set_params(**({"rank": 1} if name in {"svd", "nmf"} else {})), legacy=True
        )
        # `sparsify` is a method of linear models there, and a parameter here
        if check.func.__name__ != "check_sparsify_coefficients"
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_as_scikit_learn_asks(estimator, check):
    check(estimator)

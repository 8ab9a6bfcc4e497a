import numpy as np
import pytest
from perturbed_tables import LABELS, TABLE
from sklearn.tree import DecisionTreeClassifier

from tacit.errors import InvalidInputError
from tacit.perturb import CorrelationAware
from tacit.perturb.methods.correlation_aware import label_correlations

GENERATOR = np.random.default_rng(3)
CLASSES = np.arange(400) % 2
ROWS = np.column_stack([CLASSES * 2.0 + GENERATOR.normal(size=400), GENERATOR.normal(size=400) * 5])


def test_predictors_move_towards_their_class_mean_and_the_rest_gets_noise():
    method = CorrelationAware(0.6, eta=0.3, random_state=0)
    released = method.fit_transform(ROWS, CLASSES)
    np.testing.assert_array_equal(method.predictors_, [True, False])
    means = np.array([ROWS[group == CLASSES, 0].mean() for group in (0, 1)])[CLASSES]
    share = (released[:, 0] - ROWS[:, 0]) / (means - ROWS[:, 0])
    assert 0 <= share.min() < 0.05
    assert 0.55 < share.max() <= 0.6
    noise = (released[:, 1] - ROWS[:, 1]) / np.ptp(ROWS[:, 1])
    assert np.abs(noise).max() <= 0.3
    assert noise.min() < -0.25
    assert np.corrcoef(released[:, 0], CLASSES)[0, 1] > np.corrcoef(ROWS[:, 0], CLASSES)[0, 1]


def test_no_value_leaves_the_span_of_its_class():
    released = CorrelationAware(2.0, eta=0.0, random_state=0).fit_transform(ROWS, CLASSES)
    for group in (0, 1):
        before, after = ROWS[group == CLASSES], released[group == CLASSES]
        middle = before.mean(axis=0)
        assert (np.abs(after - middle) <= np.abs(before - middle) + 1e-12).all()


def test_other_rows_are_changed_without_their_labels():
    method = CorrelationAware(1.0, eta=0.3, random_state=0).fit(ROWS[:200], CLASSES[:200])
    other, truth = ROWS[200:], CLASSES[200:]
    free = method.transform(other)
    true, wrong = (method.transform_with_labels(other, labels) for labels in (truth, 1 - truth))
    # with labels, a row moves towards the class of its label, right or wrong: scores on such test rows mean nothing
    assert np.corrcoef(true[:, 0], truth)[0, 1] > np.corrcoef(free[:, 0], truth)[0, 1] + 0.02
    assert np.corrcoef(wrong[:, 0], truth)[0, 1] < np.corrcoef(free[:, 0], truth)[0, 1]
    # the columns that are not correlated with the label get the same noise in all three
    np.testing.assert_array_equal(free[:, 1], true[:, 1])
    # the noise depends on the values of the rows only
    np.testing.assert_array_equal(free, method.transform(other.copy()))


def test_the_leaf_form_keeps_rows_in_their_leaf():
    method = CorrelationAware(1.0, eta=0.0, form="leaf", leaf_rows=15, random_state=0)
    released = method.fit_transform(TABLE, LABELS)
    tree = DecisionTreeClassifier(min_samples_leaf=15, random_state=0).fit(TABLE, LABELS)
    # a row that moves towards the mean of its leaf, and not beyond it, stays in the leaf
    np.testing.assert_array_equal(tree.apply(released), tree.apply(TABLE))
    np.testing.assert_array_equal(method.transform(TABLE), released)  # leaves need no labels


def test_correlation_with_two_ordered_and_unordered_classes():
    two = label_correlations(ROWS, CLASSES, ordered=False)
    np.testing.assert_allclose(two, np.abs([np.corrcoef(column, CLASSES)[0, 1] for column in ROWS.T]))
    # a column that is high for the middle class only: no trend, but it separates two classes
    codes = np.arange(300) % 3
    column = (codes == 1) * 4.0 + np.random.default_rng(0).normal(size=300)
    ordered, unordered = (label_correlations(column[:, None], codes, ordered=flag)[0] for flag in (True, False))
    pairs = [np.corrcoef(column[codes != out], codes[codes != out])[0, 1] for out in range(3)]
    assert unordered == pytest.approx(np.max(np.abs(pairs)))
    assert ordered == pytest.approx(abs(np.corrcoef(column, codes)[0, 1]))
    assert ordered < 0.2
    assert unordered > 0.8
    assert label_correlations(np.ones((300, 1)), codes, ordered=False)[0] == 0


def test_ordered_classes_of_text_are_given_in_order():
    codes = np.arange(300) % 3
    names = np.array(["bad", "average", "great"])[codes]
    column = codes + np.random.default_rng(0).normal(size=300)
    table = np.column_stack([column, column[::-1]])
    given = CorrelationAware(0.5, ordered=True, classes=["bad", "average", "great"], random_state=0).fit(table, names)
    assert given.correlations_[0] == pytest.approx(abs(np.corrcoef(column, codes)[0, 1]))
    sorted_ = CorrelationAware(0.5, ordered=True, random_state=0).fit(table, names)
    assert sorted_.correlations_[0] < given.correlations_[0]


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        (None, "one label per row; got none"),
        (CLASSES[:-1], "one label per row; got more or fewer"),
        (np.zeros(400), "at least two classes"),
        (np.where(CLASSES == 1, np.nan, 0.0), "a label for every row"),
        (np.column_stack([CLASSES, CLASSES]), "one label per row; got labels in 2 dimensions"),
    ],
)
def test_labels_that_do_not_match(y, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        CorrelationAware(0.5).fit(ROWS, y)


def test_settings_that_make_no_sense():
    for method in (
        CorrelationAware(2.5),
        CorrelationAware(0.5, eta=-1),
        CorrelationAware(0.5, form="forest"),
        CorrelationAware(0.5, form="leaf", leaf_rows=0),
        CorrelationAware(0.5, classes=[0, 2]),
    ):
        with pytest.raises(InvalidInputError):
            method.fit(ROWS, CLASSES)

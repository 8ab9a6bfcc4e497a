"""The panel: what classifiers learn, AUC of several classes, both forms of test rows, bad input."""

import numpy as np
import polars
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from tacit.errors import InvalidInputError
from tacit.measure import CLASSIFIERS, area_under_curve, classifier_panel, classifier_scores, misclassification_rate
from tacit.measure.classifiers import _auc, _split, combined_kernel


def classes(n_classes=2, seed=0, n_rows=240):
    return make_classification(
        n_rows,
        6,
        n_informative=4,
        n_classes=n_classes,
        n_clusters_per_class=1,
        class_sep=1.5,
        flip_y=0.05,
        random_state=seed,
    )


def test_the_names_of_the_panel():
    svms = {"svm-linear", "svm-rbf", "svm-sigmoid", "svm-combined"}
    assert set(CLASSIFIERS) == {"logistic", "logistic-l1", "naive-bayes", "tree"} | svms


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_classifier_learns_and_an_unchanged_release_changes_nothing(n_classes):
    table, labels = classes(n_classes)
    names = np.array(["low", "mid", "top"])[labels]
    scores = classifier_panel(table, table, names)
    assert [score.classifier for score in scores] == list(CLASSIFIERS)
    for score in scores:
        assert score.misclassification == score.misclassification_original < 0.3
        assert score.auc == score.auc_original > 0.8


def test_noise_that_drowns_the_table_leaves_nothing_to_learn():
    table, labels = classes(n_rows=600)
    noise = np.random.default_rng(0).normal(size=table.shape)
    names = ["logistic", "tree", "svm-rbf"]
    # On original rows a boundary in a random direction can be right by chance; on noise none can.
    for score in classifier_panel(table, noise, labels, classifiers=names, test_rows="released"):
        assert abs(score.auc - 0.5) < 0.2 < score.auc_original - 0.5
        assert score.misclassification > 0.3


def test_original_or_released_test_rows():
    """Trained on a rotated table, a classifier is wrong on original rows and right on rotated ones."""
    table, labels = classes()
    turned = -table
    for name in ("logistic", "svm-linear"):
        on_original = classifier_panel(table, turned, labels, classifiers=[name], test_rows="original")[0]
        on_released = classifier_panel(table, turned, labels, classifiers=[name], test_rows="released")[0]
        assert on_original.auc < 0.3
        assert on_released.auc == pytest.approx(on_released.auc_original)
        assert (on_original.test_rows, on_released.test_rows) == ("original", "released")


def test_single_numbers_are_those_of_the_panel():
    table, labels = classes()
    released = table + np.random.default_rng(1).normal(size=table.shape)
    score = classifier_panel(table, released, labels, classifiers=["logistic-l1"], test_rows="released")[0]
    settings = {"classifier": "logistic-l1", "test_rows": "released"}
    assert misclassification_rate(table, released, labels, **settings) == score.misclassification
    assert area_under_curve(table, released, labels, **settings) == score.auc


def test_auc_of_several_classes_is_the_mean_of_one_against_the_rest():
    generator = np.random.default_rng(2)
    labels = generator.integers(0, 4, size=200)
    scores = generator.random((200, 4)) + np.eye(4)[labels]
    shares = scores / scores.sum(axis=1, keepdims=True)
    expected = roc_auc_score(labels, shares, multi_class="ovr", average="macro")
    assert _auc(shares, labels, np.arange(4)) == pytest.approx(expected)
    # a class that the test rows do not have is left out
    assert _auc(np.column_stack([shares, generator.random(200)]), labels, np.arange(5)) == pytest.approx(expected)


def test_naive_bayes_far_from_the_classes_has_no_ties():
    """Its probabilities round to 0 and 1 there; its log-odds do not."""
    train = np.array([[-1.0], [-2.0], [-1.5], [1.0], [2.0], [1.5]])
    labels = np.array([0, 0, 0, 1, 1, 1])
    test = np.array([[60.0], [70.0], [80.0], [90.0]])
    wrong, area = classifier_scores(train, labels, test, np.array([0, 0, 1, 1]), "naive-bayes")
    assert (wrong, area) == (0.5, 1.0)


def test_the_combined_kernel_by_hand():
    X, Y = np.array([[1.0, 2.0]]), np.array([[3.0, 1.0], [1.0, 2.0]])
    assert combined_kernel(X, Y)[0] == pytest.approx([0.5 * 5 / 2 + 0.5 * np.exp(-5 / 2), 0.5 * 5 / 2 + 0.5])


def test_kernel_machines_learn_from_fewer_rows_and_all_classes():
    table, labels = classes(3, n_rows=300)
    few = classifier_panel(table, table, labels, classifiers=["svm-rbf"], kernel_rows=30)[0]
    every = classifier_panel(table, table, labels, classifiers=["svm-rbf"], kernel_rows=None)[0]
    assert 0.6 < few.auc < every.auc


def test_the_split_keeps_each_class_on_both_sides():
    labels = np.array(["a"] * 50 + ["b"] * 2 + ["c"] * 10)
    train, test = _split(labels, 0.3, 0)
    assert sorted([*train, *test]) == list(range(62))
    assert set(labels[train]) == set(labels[test]) == {"a", "b", "c"}
    assert np.count_nonzero(labels[test] == "a") == 15


def test_labels_of_frames():
    table, labels = classes()
    frame = polars.DataFrame({"class": np.array(["no", "yes"])[labels]})
    score = classifier_panel(table, table, frame["class"], classifiers=["tree"])[0]
    assert score == classifier_panel(table, table, labels, classifiers=["tree"])[0]


def test_bad_input():
    table, labels = classes()
    with pytest.raises(InvalidInputError, match="a label for each of the 240 rows"):
        classifier_panel(table, table, labels[:-1])
    with pytest.raises(InvalidInputError, match="missing labels"):
        classifier_panel(table, table, [None, *labels[1:]])
    with pytest.raises(InvalidInputError, match="missing labels"):
        classifier_panel(table, table, np.where(np.arange(240) == 3, np.nan, labels))
    with pytest.raises(InvalidInputError, match="one class"):
        classifier_panel(table, table, np.full(240, 7))
    with pytest.raises(InvalidInputError, match="a class with one row"):
        classifier_panel(table, table, ["rare", *labels[1:].astype(str)])
    with pytest.raises(InvalidInputError, match="classifiers to be one of"):
        classifier_panel(table, table, labels, classifiers=["perceptron"])
    with pytest.raises(InvalidInputError, match="test_rows to be one of"):
        classifier_panel(table, table, labels, test_rows="both")
    for share in (0, 1, -0.1, "some"):
        with pytest.raises(InvalidInputError, match="test_fraction"):
            classifier_panel(table, table, labels, test_fraction=share)
    with pytest.raises(InvalidInputError, match="at least 4 rows"):
        classifier_panel([[1.0]], [[1.0]], ["a"])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_that_training_rows_lack_counts_as_not_learned(name):
    """Synthetic rows can lose a class; the score must not be that of the classes that are left."""
    generator = np.random.default_rng(5)
    labels = np.repeat([0, 1, 2], 30)
    table = generator.normal(size=(90, 2)) + 20 * np.column_stack([labels == 1, labels == 2])
    two = labels < 2
    wrong, area = classifier_scores(table[two], labels[two], table, labels, name)
    assert wrong >= 1 / 3
    # the two known classes are separable; rows of the third lie between or next to them
    assert area <= (1 + 1 + 0.5) / 3
    alone = labels == 2
    assert classifier_scores(table[alone], labels[alone], table, labels, name) == (pytest.approx(2 / 3), 0.5)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_rows_that_are_all_alike_teach_the_commonest_class_and_no_more(name):
    table, labels = np.ones((10, 3)), np.array([0] * 3 + [1] * 7)
    test = np.random.default_rng(0).normal(size=(10, 3))
    assert classifier_scores(table, labels, test, labels, name) == (pytest.approx(0.3), 0.5)


def test_one_class_to_test_on_has_no_curve():
    table = np.arange(8.0)[:, None]
    with pytest.raises(InvalidInputError, match="test rows of at least two classes"):
        classifier_scores(table, np.arange(8) % 2, table[:2], np.zeros(2, dtype=int), "tree")

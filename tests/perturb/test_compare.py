import numpy as np
import pytest
from perturbed_tables import LABELS, TABLE

from tacit.data import NumberColumn
from tacit.errors import InvalidInputError
from tacit.measure.attacks import AttackResult
from tacit.perturb import compare_releases, named_release
from tacit.perturb.compare import (
    BOUNDS_FROM_DATA,
    COMPARED,
    PRIVATE,
    Compared,
    choice_in_words,
    frontier,
    gain,
    rows_held_out,
)
from tacit.perturb.registry import PERTURBATIONS


def test_every_method_has_a_name_and_unknown_settings_are_refused():
    for name, (kind, _) in PERTURBATIONS.items():
        assert type(named_release(name)) is kind
    assert named_release("uniform-noise", level=0.3, random_state=None).level == 0.3
    with pytest.raises(InvalidInputError, match="method to be one of"):
        named_release("reflection")
    with pytest.raises(InvalidInputError, match="settings of nmf"):
        named_release("nmf", eta=0.1)


def test_gain_is_the_share_of_what_there_is_to_gain():
    def finding(recovered, baseline):
        return AttackResult("a", "b", recovered, baseline, (0.0, 1.0), 10)

    assert gain(finding(0.75, 0.5)) == pytest.approx(0.5)
    assert gain(finding(0.3, 0.5)) == 0
    assert gain(finding(1.0, 0.2)) == 1
    assert gain(finding(1.0, 1.0)) == 0


@pytest.mark.slow
def test_more_distortion_gives_less_away_and_what_cannot_be_reached_is_said():
    told = []
    found = compare_releases(
        *(TABLE, LABELS),
        methods=["normal-noise", "constrained-nmf", "private-table"],
        distortions=[0.02, 0.5],
        epsilons=[5.0],
        schema=NumberColumn(-5.0, 15.0),
        advance=told.append,
    )
    assert told == ["normal-noise", "constrained-nmf", "private-table"]
    little, much, _, unreachable, private = found
    assert little.leak > much.leak
    assert little.distortion == pytest.approx(0.02, rel=0.02)
    assert unreachable.utility is None
    assert "the largest is" in unreachable.note
    assert private.distortion is None
    assert private.note == ""
    assert private.leak < little.leak
    assert set(little.attacks) == set(private.attacks)
    assert little.leak == max(little.attacks.values())


def test_the_comparison_is_repeatable_but_for_private_noise():
    assert "hide-membership" not in COMPARED
    one, two = (
        compare_releases(TABLE, None, methods=["uniform-noise", "correlation-aware"], distortions=[0.1])
        for _ in range(2)
    )
    assert [point.to_dict() for point in one] == [point.to_dict() for point in two]
    assert one[1].note == "needs labels"
    assert np.isfinite(one[0].utility)


def test_tables_that_cannot_be_compared_on_are_refused():
    for table, labels, complaint in [
        (TABLE[:9], None, "at least 10 rows"),
        (np.column_stack([TABLE, np.ones(len(TABLE))]), None, "the same value in every row of 4"),
        (TABLE, np.zeros(len(TABLE)), "at least two classes"),
        (TABLE, np.arange(len(TABLE)), "at least two classes"),
    ]:
        with pytest.raises(InvalidInputError, match=complaint):
            compare_releases(table, labels, methods=["normal-noise"], distortions=[0.1])


def test_an_attack_that_a_table_does_not_allow_is_left_out_with_the_reason():
    (point,) = compare_releases(TABLE[:, :1], LABELS, methods=["normal-noise"], distortions=[0.1])
    assert "without attribute inference: needs at least two columns" in point.note
    assert len(point.attacks) == 5
    assert point.leak == max(point.attacks.values())


def test_every_class_is_trained_and_tested_on():
    labels = np.array([0] * 90 + [1] * 2 + [2])
    for seed in range(5):
        test = rows_held_out(labels, 93, seed)
        assert np.unique(labels[test]).tolist() == [0, 1]
        assert np.unique(labels[~test]).tolist() == [0, 1, 2]
        assert test.sum() == 28
    assert rows_held_out(None, 100, 0).sum() == 30


def test_the_frontier_has_what_nothing_beats_and_words_name_it():
    points = [
        Compared("noise", "distortion 0.1", 0.95, 0.9),
        Compared("noise", "distortion 0.2", 0.93, 0.5),
        Compared("noise", "distortion 0.4", 0.80, 0.4),
        Compared("svd", "distortion 0.1", 0.93, 0.6),
        Compared("svd", "distortion 0.2", note="cannot"),
        Compared(PRIVATE, "epsilon 1", 0.85, 0.05, note=BOUNDS_FROM_DATA),
        Compared(PRIVATE, "epsilon 0.5", 0.70, 0.02),
    ]
    assert frontier(points) == [points[6], points[5], points[1], points[0]]
    said = choice_in_words(points, 0.945, "AUC")
    assert "within 0.02 of the original's 0.945, noise at distortion 0.2 leaks least" in said
    assert "gains 50%" in said
    assert "private-table at epsilon 1 (a guarantee, if its bounds are public) is the most useful: AUC 0.850" in said
    assert choice_in_words(points, 0.85, "AUC").startswith("Private-table at epsilon 1")
    assert "cannot be learned from the original either" in choice_in_words(points, 0.52, "AUC")
    assert "cannot be learned" not in choice_in_words(points, 0.52, "clustering accuracy")
    nothing = choice_in_words(points[2:3], 0.945, "AUC")
    assert nothing.startswith("No release here keeps AUC")
    assert "No release here limits every attack to 10%" in nothing


def test_clusters_are_counted_where_methods_look_for_them():
    """In raw units a wide column of noise would determine the clusters, and hide that the method kept the real ones."""
    generator = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], 40)
    table = np.column_stack([groups + 0.1 * generator.random(120), groups % 2 + 0.1 * generator.random(120)])
    table = np.column_stack([table, 100 + 50 * generator.random(120)])
    (point,) = compare_releases(table, methods=["compressed-nmf"], distortions=[0.05], n_clusters=3)
    assert point.utility == 1

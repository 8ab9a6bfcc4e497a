"""Measures of recommended lists, against values computed by hand and a direct computation from the definitions."""

import math

import numpy as np
import pytest

from tacit.errors import InvalidInputError
from tacit.measure import divided_histories, ranking_scores


def test_measures_worked_out_by_hand():
    found = ranking_scores([["a", "b", "c"]], [["b", "c", "x", "y"]], k=3, n_items=10)
    assert found.recall == pytest.approx(2 / 3)  # 2 hits of at most 3
    assert found.average_precision == pytest.approx((1 / 2 + 2 / 3) / 3)
    assert found.ndcg == pytest.approx((1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2))
    assert found.coverage == 0.3
    assert math.isnan(found.popularity_bias)
    assert (found.k, found.n_users) == (3, 1)


def test_a_perfect_list_has_one_everywhere_whatever_the_number_of_relevant_items():
    for count in (1, 3, 8):
        found = ranking_scores([list(range(5))], [list(range(count))], k=5)
        assert (found.recall, found.ndcg, found.average_precision) == (1.0, 1.0, 1.0)


def test_order_matters_to_ndcg_and_precision_but_not_to_recall():
    first, last = (ranking_scores([order], [[7]], k=4) for order in ([7, 1, 2, 3], [1, 2, 3, 7]))
    assert first.recall == last.recall == 1
    assert first.ndcg > last.ndcg == pytest.approx(1 / math.log2(5))
    assert first.average_precision > last.average_precision == 0.25


def test_only_the_first_k_count_and_short_lists_are_allowed():
    assert ranking_scores([[1, 2, 3]], [[3]], k=2).recall == 0
    assert ranking_scores([[3]], [[3, 4]], k=5).recall == 0.5
    assert ranking_scores([[]], [[3]], k=5).ndcg == 0


def test_users_without_relevant_items_count_for_coverage_alone():
    found = ranking_scores([[1, 2], [3, 4]], [[1], []], k=2, n_items=8, popularity=np.ones(5))
    assert (found.recall, found.n_users, found.coverage) == (1.0, 1, 0.5)
    nobody = ranking_scores([[1]], [[]], k=1)
    assert nobody.n_users == 0
    assert math.isnan(nobody.recall)


def test_popularity_bias_compares_lists_with_choices():
    popularity = {"hit": 90.0, "usual": 10.0, "rare": 1.0}
    assert ranking_scores([["hit"]], [["usual"]], k=1, popularity=popularity).popularity_bias == 9.0
    assert ranking_scores([["usual"]], [["usual"]], k=1, popularity=popularity).popularity_bias == 1.0


def test_agrees_with_the_definitions_on_random_lists():
    generator = np.random.default_rng(3)
    lists = [generator.permutation(30)[:10] for _ in range(40)]
    relevant = [generator.permutation(30)[: generator.integers(1, 15)] for _ in range(40)]
    found = ranking_scores(lists, relevant, k=10)
    recall, ndcg, precision = [], [], []
    for shown, wanted in zip(lists, relevant, strict=True):
        hits = [item in wanted for item in shown]
        ideal = min(10, len(wanted))
        recall.append(sum(hits) / ideal)
        ndcg.append(
            sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
            / sum(1 / math.log2(rank + 2) for rank in range(ideal))
        )
        precision.append(sum(hit * sum(hits[: rank + 1]) / (rank + 1) for rank, hit in enumerate(hits)) / ideal)
    assert found.recall == pytest.approx(np.mean(recall))
    assert found.ndcg == pytest.approx(np.mean(ndcg))
    assert found.average_precision == pytest.approx(np.mean(precision))


def test_histories_are_divided_without_loss_or_overlap():
    histories = [np.arange(10), ["a", "b"], [5], []]
    seen, relevant = divided_histories(histories, fraction=0.25, random_state=1)
    for history, left, taken in zip(histories, seen, relevant, strict=True):
        assert sorted(map(str, [*left, *taken])) == sorted(map(str, history))
    assert [len(taken) for taken in relevant] == [2, 1, 0, 0]
    assert divided_histories(histories, fraction=0.25, random_state=1) == (seen, relevant)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ranking_scores([[1]], [[1], [2]]),
        lambda: ranking_scores([[1, 1]], [[1]]),
        lambda: ranking_scores([[1]], [[1]], k=0),
        lambda: divided_histories([[1, 2]], fraction=1.0),
    ],
)
def test_refuses_what_cannot_be_measured(call):
    with pytest.raises(InvalidInputError):
        call()

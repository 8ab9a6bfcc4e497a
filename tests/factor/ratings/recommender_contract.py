"""Tests that every recommender must pass, as a mixin of its test class."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

import tacit
from tacit.data import make_ratings
from tacit.errors import InvalidInputError
from tacit.measure import divided_histories, ranking_scores

DATA = make_ratings(300, 40, n_factors=2, ratings_per_user=15, noise=0.5, random_state=3)
USERS, ITEMS, RATINGS = DATA.users, DATA.items, DATA.ratings


def quietly(model, *ratings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*ratings)


class RecommenderContract:
    """Subclasses provide `estimator`, unfitted and deterministic."""

    estimator = None
    cold_start_is_exact = True

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        return quietly(clone(cls.estimator), USERS, ITEMS, RATINGS)

    def fitted(self, *ratings):
        return quietly(clone(self.estimator), *ratings)

    def same(self, first, second):
        assert np.array_equal(first.item_biases_, second.item_biases_)
        assert np.array_equal(first.item_factors_, second.item_factors_)

    def test_arrays_frames_and_sparse_matrices_are_the_same(self, model):
        frame = pl.DataFrame({"rating": RATINGS, "item": ITEMS, "user": USERS})
        self.same(self.fitted(frame), model)
        self.same(self.fitted(pd.DataFrame({"user": USERS, "item": ITEMS, "rating": RATINGS})), model)
        self.same(self.fitted(frame.select("user", "item", "rating").rename({"user": "who"})), model)
        matrix = sparse.csr_array((RATINGS.astype(float), (USERS, ITEMS)))
        self.same(self.fitted(matrix), model)

    def test_the_order_of_the_ratings_does_not_matter(self, model):
        order = np.random.default_rng(0).permutation(len(RATINGS))
        self.same(self.fitted(USERS[order], ITEMS[order], RATINGS[order]), model)

    @pytest.mark.parametrize("name", [str, lambda i: ("film", int(i)), lambda i: int(i) if i % 2 else f"{i:03d}"])
    def test_ids_may_be_anything_hashable(self, model, name):
        users, items = [name(u) for u in USERS], [name(i) for i in ITEMS]
        other = self.fitted(users, items, RATINGS)
        expected = dict(zip(model.item_ids_, model.item_biases_, strict=True))
        renamed = {name(key): key for key in expected}
        found = dict(zip(list(other.item_ids_), other.item_biases_, strict=True))
        assert set(renamed) == set(found)
        best = other.recommend(name(7), 3)
        assert len(best) == 3
        assert not {item for item, _ in best} & {name(i) for i in ITEMS[USERS == 7]}
        assert other.predict([name(7)], [name(3)]).shape == (1,)

    def test_predictions_stay_in_range_and_mean_something(self, model):
        predicted = model.predict(USERS, ITEMS)
        assert predicted.min() >= 1
        assert predicted.max() <= 5

    def test_recommendations_are_the_highest_predictions_of_what_was_not_seen(self, model):
        for user in (0, 11):
            best = model.recommend(user, 5)
            seen = set(ITEMS[user == USERS])
            others = [item for item in range(40) if item not in seen]
            predicted = np.sort(model.predict([user] * len(others), others))[::-1]
            assert not seen & {item for item, _ in best}
            assert [score for _, score in best] == pytest.approx(predicted[:5])
        everything = model.recommend(0, 1000, exclude_seen=False)
        assert len(everything) == 40
        assert len(model.recommend(0, 1000)) == 40 - len(set(ITEMS[USERS == 0]))

    def test_a_new_user_with_the_same_ratings_gets_the_same(self, model):
        if not self.cold_start_is_exact:
            pytest.skip("its users' factors are released, not solved")
        rated, given = ITEMS[USERS == 5], RATINGS[USERS == 5]
        assert model.recommend_for(rated, given, 4) == model.recommend(5, 4)
        assert np.array_equal(model.predict_for(rated, given, ITEMS[:9]), model.predict([5] * 9, ITEMS[:9]))
        backwards = model.user_factors(rated[::-1], given[::-1])
        assert np.array_equal(backwards, model.user_factors(rated, given))

    def test_duplicates_keep_the_last_and_are_counted(self, model):
        users, items = np.r_[USERS[:50], USERS], np.r_[ITEMS[:50], ITEMS]
        again = self.fitted(users, items, np.r_[6 - RATINGS[:50], RATINGS])
        assert again.n_duplicates_ == 50
        self.same(again, model)

    def test_saved_files_hold_items_and_no_users(self, model, tmp_path):
        model.save(tmp_path / "model")
        loaded = tacit.load(tmp_path / "model")
        self.same(loaded, model)
        rated, given = ITEMS[USERS == 5], RATINGS[USERS == 5]
        assert loaded.recommend_for(rated, given, 4) == model.recommend_for(rated, given, 4)
        with pytest.raises(InvalidInputError, match="no users"):
            loaded.predict([5], [3])
        with np.load(tmp_path / "model") as archive:
            values = {name for name in archive.files if not name.startswith("parameters.")}
            assert values <= {"model.json", *model._released}
        assert not {"_table", "_users", "n_duplicates_"} & set(vars(loaded))

    def test_evaluate_agrees_with_the_definitions(self, model):
        """Held out: for some users three unseen items, rated by the truth."""
        rng = np.random.default_rng(1)
        users, items, ratings = [], [], []
        for user in range(0, 60, 3):
            unseen = np.setdiff1d(np.arange(40), ITEMS[user == USERS])
            for item in rng.choice(unseen, 3, replace=False):
                users.append(user), items.append(int(item)), ratings.append(int(rng.integers(1, 6)))
        found = model.evaluate(users, items, ratings, k=5, relevant=4)
        errors = model.predict(users, items) - ratings
        assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
        assert found.mae == pytest.approx(np.abs(errors).mean())
        recalls, gains = [], []
        for user in sorted(set(users)):
            wanted = {i for u, i, r in zip(users, items, ratings, strict=True) if u == user and r >= 4}
            if wanted:
                top = [item for item, _ in model.recommend(user, 5)]
                gain = sum(1 / np.log2(rank + 2) for rank, item in enumerate(top) if item in wanted)
                recalls.append(len(wanted & set(top)) / len(wanted))
                gains.append(gain / sum(1 / np.log2(rank + 2) for rank in range(min(5, len(wanted)))))
        assert found.recall == pytest.approx(np.mean(recalls))
        assert found.ndcg == pytest.approx(np.mean(gains))
        assert found.n_users == len(recalls)

    def test_new_users_are_measured_by_their_own_lists(self, model):
        """Copies of fitted users under new names: the lists are those of `recommend_for` with the part that is seen."""
        if not self.cold_start_is_exact:
            pytest.skip("its users' factors are released, not solved")
        chosen = USERS < 30
        users, items, ratings = USERS[chosen] + 10_000, ITEMS[chosen], RATINGS[chosen]
        found = model.evaluate_new_users(users, items, ratings, k=5, relevant=4, random_state=2)
        order = np.lexsort((items, users))
        users, items, ratings = users[order], items[order], ratings[order]
        places = [np.flatnonzero(users == user) for user in np.unique(users)]
        seen, taken = divided_histories(places, random_state=2)
        lists = [[item for item, _ in model.recommend_for(items[one], ratings[one], 5)] for one in seen]
        wanted = [[items[place] for place in one if ratings[place] >= 4] for one in taken]
        expected = ranking_scores(lists, wanted, k=5, n_items=40)
        assert (found.recall, found.ndcg, found.n_users) == (expected.recall, expected.ndcg, expected.n_users)
        assert found.coverage == expected.coverage

    def test_evaluate_takes_strangers(self, model):
        found = model.evaluate([0, 10**6], [10**6, 0], [3, 3])
        assert np.isfinite(found.rmse)
        assert found.n_users == 0

    def test_similar_items(self, model):
        if not np.linalg.norm(model.item_factors_, axis=1).all():
            pytest.skip("no factors at this noise")
        found = model.similar_items(3, 5)
        lengths = np.linalg.norm(model.item_factors_, axis=1)
        cosines = model.item_factors_ @ model.item_factors_[3] / lengths / lengths[3]
        assert [item for item, _ in found] == [i for i in np.argsort(-cosines) if i != 3][:5]
        assert all(-1.001 <= cosine <= 1.001 for _, cosine in found)

    @pytest.mark.parametrize(
        ("ratings", "message"),
        [
            (([], [], []), "at least one rating"),
            (([1, 2], [1], [3, 4]), "equal numbers of users"),
            (([1], [1], [np.nan]), "finite"),
            (([1], [1], ["good"]), "numbers"),
            (([1.0, np.nan], [1, 2], [3, 4]), "without missing values"),
            (([1, None], [1, 2], [3, 4]), "without missing values"),
            (([1, [2]], [1, 2], [3, 4]), "hashable"),
            (([1], [1], [9]), "between 1 and 5"),
            (([[1]], [1], [3]), "hashable"),
            ((np.ones((2, 2)), [1], [3]), "one dimension"),
            (([1], None, [3]), "together"),
            ((3,), "data frame"),
            ((pl.DataFrame({"a": [1], "b": [2]}),), "columns"),
            ((pl.DataFrame({"user": [1, None], "item": [2, 3], "rating": [3, 4]}),), "without missing values"),
            ((pl.DataFrame({"user": [], "item": [], "rating": []}),), "at least one rating"),
        ],
    )
    def test_bad_ratings_are_refused(self, ratings, message):
        with pytest.raises(InvalidInputError, match=message):
            clone(self.estimator).fit(*ratings)

    def test_unknown_ids(self, model):
        with pytest.raises(InvalidInputError, match="user ids that the model knows; got an unknown user id"):
            model.predict([77777], [0])
        with pytest.raises(InvalidInputError, match="item ids that the model knows"):
            model.predict([0], ["nothing"])
        with pytest.raises(InvalidInputError, match="item ids"):
            model.recommend_for([77777], [3])
        with pytest.raises(InvalidInputError, match="between 1 and 5"):
            model.recommend_for([0], [7])
        with pytest.raises(InvalidInputError, match="item ids"):
            model.similar_items("nothing")
        mean = getattr(model, "rating_mean_", model.global_mean_)
        assert model.predict([77777], [77777], unknown="mean") == pytest.approx(mean, abs=1e-6)

    def test_not_fitted(self):
        with pytest.raises(InvalidInputError, match="fitted"):
            clone(self.estimator).predict([0], [0])

    @pytest.mark.parametrize("shape", ["user", "item", "rating"])
    def test_one_user_one_item_one_rating(self, shape):
        users = [1] * 9 if shape != "item" else list(range(9))
        items = [1] * 9 if shape == "item" else list(range(9))
        ratings = [1, 2, 3, 4, 5, 4, 3, 2, 1]
        last = 1 if shape == "rating" else 9
        model = self.fitted(users[:last], items[:last], ratings[:last])
        predicted = model.predict(users[:last], items[:last])
        assert np.isfinite(predicted).all()

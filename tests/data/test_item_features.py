"""Public features of items."""

import numpy as np
import pytest

from tacit.data import item_features
from tacit.errors import InvalidInputError


def test_words_numbers_and_gaps():
    years = [1950, 1960, 1970, 1980, 1990, 2000, 2010, 2020, None, float("nan")]
    genres = ["Drama", "Drama | War", "War;Drama", "Comedy", "Comedy", None, "", "Drama", "War", "Once"]
    features, names = item_features({"genre": genres, "year": years}, least=1)
    by_name = dict(zip(names, features.T, strict=True))
    assert by_name["genre: Drama"].tolist() == [1, 1, 1, 0, 0, 0, 0, 1, 0, 0]
    assert by_name["genre: Once"].sum() == 1
    year_columns = np.stack([column for name, column in by_name.items() if name.startswith("year")])
    assert year_columns.sum(axis=0).tolist() == [1] * 8 + [0, 0]
    assert len(year_columns) == 8
    _, common = item_features({"genre": genres})
    assert "genre: Once" not in common


def test_words_of_titles():
    titles = ["The Godfather", "The Godfather: Part II", "Alien", "Aliens vs. alien", None]
    features, names = item_features({"title": titles}, titles=["title"])
    assert names == ["title: alien", "title: godfather"]
    assert features[:, 1].tolist() == [1, 1, 0, 0, 0]
    with pytest.raises(InvalidInputError, match="in common"):
        item_features({"title": ["Common word"] * 16}, titles=["title"])


def test_refused():
    with pytest.raises(InvalidInputError, match="in common"):
        item_features({"genre": ["a", "b"]})
    with pytest.raises(InvalidInputError, match="one value per item"):
        item_features({"genre": ["a", "a"], "year": [1]}, least=1)

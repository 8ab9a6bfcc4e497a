"""Official files are found by name and read in their official formats; what is missing or wrong is named."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_array

from tacit.errors import InvalidInputError
from tacit.reproduce.data import DataFolder, MissingData
from tacit.reproduce.datasets.digits import read_idx
from tacit.reproduce.datasets.faces import read_pgm, read_yale_mat
from tacit.reproduce.datasets.ratings import read_anime, read_ml_1m, read_ml_100k, slice_of, triples
from tacit.reproduce.datasets.regression import read_news, read_songs
from tacit.reproduce.datasets.texts import read_bag_of_words, read_headlines, read_mat, read_posts


def test_movielens(tmp_path):
    path = tmp_path / "ratings.dat"
    path.write_text("1::1193::5::978300760\n1::661::3::978302109\n9::1193::4::978300275\n")
    found = read_ml_1m(path)
    assert found.shape == (2, 2)
    assert found.users.tolist() == [0, 0, 1]
    assert found.items.tolist() == [1, 0, 1]
    assert found.ratings.tolist() == [5, 3, 4]
    path = tmp_path / "u.data"
    path.write_text("196\t242\t3\t881250949\n186\t302\t1\t891717742\n")
    assert read_ml_100k(path).ratings.tolist() == [3, 1]
    path.write_text("196\t242\t3\n")
    with pytest.raises(InvalidInputError, match=r"u\.data"):
        read_ml_100k(path)


def test_anime_leaves_out_what_was_not_rated(tmp_path):
    path = tmp_path / "rating.csv"
    lines = [f"{user},{item},{-1 if item == 0 else 7}" for user in range(120) for item in range(250)]
    path.write_text("user_id,anime_id,rating\n" + "\n".join(lines) + "\n")
    found = read_anime(path)
    assert found.shape == (120, 249)
    assert set(found.ratings.tolist()) == {7.0}


def test_the_slice_keeps_users_and_items_with_enough_ratings():
    users = np.repeat(np.arange(4), [1, 3, 3, 3])
    items = np.array([0, 0, 1, 2, 0, 1, 2, 0, 1, 2])
    found = slice_of(triples(users, items, np.ones(10), (1, 5)), user_range=(2, 9), item_least=2)
    assert found.shape == (3, 3)


def test_mat_files(tmp_path):
    savemat(tmp_path / "TDT2.mat", {"fea": csc_array([[1.0, 0.0], [0.0, 2.0]]), "gnd": np.array([[1], [2]])})
    found = read_mat(tmp_path / "TDT2.mat")
    assert found.counts.toarray().tolist() == [[1, 0], [0, 2]]
    assert found.labels.tolist() == [1, 2]
    face = np.arange(1024).reshape(32, 32) % 256
    savemat(tmp_path / "YaleB_32x32.mat", {"fea": face.T.reshape(1, -1)})
    shown = read_yale_mat(tmp_path / "YaleB_32x32.mat")
    assert np.array_equal(shown.X.reshape(32, 32), face / 255.0)


def test_the_bag_of_words(tmp_path):
    with gzip.open(tmp_path / "docword.enron.txt.gz", "wt") as file:
        file.write("2\n3\n3\n1 1 4\n1 3 1\n2 2 5\n")
    (tmp_path / "vocab.enron.txt").write_text("gas\noil\npower\n")
    found = read_bag_of_words(tmp_path / "docword.enron.txt.gz", tmp_path / "vocab.enron.txt")
    assert found.counts.toarray().tolist() == [[4, 0, 1], [0, 5, 0]]
    assert found.terms == ("gas", "oil", "power")
    with gzip.open(tmp_path / "docword.enron.txt.gz", "wt") as file:
        file.write("2\n3\n4\n1 1 4\n")
    with pytest.raises(InvalidInputError, match="enron"):
        read_bag_of_words(tmp_path / "docword.enron.txt.gz", tmp_path / "vocab.enron.txt")


def test_posts_are_read_without_their_headers(tmp_path):
    for group, word in (("a.space", "orbit"), ("b.autos", "engine"), ("c.med", "doctor"), ("d.crypt", "cipher")):
        folder = tmp_path / "20news-bydate-train" / group
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / str(number)).write_text(f"Subject: secret{word}\n\n{word} word{number}\n")
    found = read_posts(tmp_path)
    assert found.terms == ("cipher", "doctor", "engine", "orbit")
    assert np.asarray(found.counts.sum(axis=0)).ravel().tolist() == [20, 20, 20, 20]
    assert found.labels.tolist() == [0] * 20 + [1] * 20 + [2] * 20 + [3] * 20


def test_headlines(tmp_path):
    line = "1\tFed official says\thttp://x\tTimes\tb\tstory\tx.com\t1394470370698\n"
    (tmp_path / "newsCorpora.csv").write_text(line * 2)
    assert read_headlines(tmp_path / "newsCorpora.csv").categories == ("b", "b")


def test_pgm_faces(tmp_path):
    for number in range(2):
        (tmp_path / f"face{number}.pgm").write_bytes(b"P5\n3 2\n255\n" + bytes([0, 51, 102, 153, 204, 255]))
    found = read_pgm(tmp_path)
    assert found.shape == (2, 3)
    assert found.X[0].tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_regression_tables(tmp_path):
    (tmp_path / "OnlineNewsPopularity.csv").write_text("url, timedelta, n_tokens_title, shares\nx, 731, 12, 593\n")
    found = read_news(tmp_path / "OnlineNewsPopularity.csv")
    assert found.names == ("n_tokens_title",)
    assert found.y.tolist() == [593]
    (tmp_path / "YearPredictionMSD.txt").write_text("2001,49.9,21.5\n1994,48.7,18.4\n")
    songs = read_songs(tmp_path / "YearPredictionMSD.txt")
    assert songs.y.tolist() == [2001, 1994]
    assert songs.X.shape == (2, 2)


def test_digits_in_idx_files(tmp_path):
    """MNIST's own format: a magic number, sizes in big-endian, then bytes."""
    (tmp_path / "images").write_bytes(struct.pack(">iiii", 2051, 2, 2, 2) + bytes(range(8)))
    assert read_idx(tmp_path / "images").reshape(2, 4).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\0\0",
        struct.pack(">iiii", 2051, 3, 2, 2) + bytes(8),  # a picture short
        struct.pack(">iii", 3331, 1, 2) + bytes(8),  # floats (0x0d), not bytes
        gzip.compress(b"\0\0\x08\1" + bytes(9))[:-9],
    ],
    ids=["empty", "half a header", "a picture short", "floats", "cut gzip"],  # gzip holds the time: no id of a test
)
def test_a_broken_idx_file_is_named(tmp_path, stored):
    (tmp_path / "images").write_bytes(stored)
    with pytest.raises(InvalidInputError, match="images to be an idx file"):
        read_idx(tmp_path / "images")


def test_a_table_with_text_among_its_numbers_is_named(tmp_path):
    (tmp_path / "iris.data").write_text("5.1,3.5,1.4,?,Iris-setosa\n")
    with pytest.raises(InvalidInputError, match=r"iris\.data to be the table"):
        DataFolder(tmp_path)["iris"]


def test_tags_in_their_official_files(tmp_path):
    (tmp_path / "ml-10M100K").mkdir()
    (tmp_path / "ml-10M100K" / "tags.dat").write_text(
        "15::4973::excellent!::1215184630\n20::1747::politics::1188263867\n"
    )
    movies = "1747::Wag the Dog (1997)::Comedy\n4973::Amelie (2001)::Comedy|Romance\n9::Other (1)::Drama\n"
    (tmp_path / "ml-10M100K" / "movies.dat").write_text(movies)
    with pytest.raises(InvalidInputError, match="2 users and 2 movies"):
        DataFolder(tmp_path)["movielens-10m-tags"]
    (tmp_path / "ml-10M100K" / "tags.dat").write_text("15::4973\n")
    with pytest.raises(InvalidInputError, match=r"tags\.dat to be tags"):
        DataFolder(tmp_path)["movielens-10m-tags"]


def test_the_number_of_songs_is_checked(tmp_path):
    (tmp_path / "YearPredictionMSD.txt").write_text("2001" + ",1.5" * 90 + "\n")
    with pytest.raises(InvalidInputError, match="1 rows of 90 features"):
        DataFolder(tmp_path)["million-songs"]


def test_ratings_without_anyone_in_the_slice_are_named(tmp_path):
    (tmp_path / "rating.csv").write_text("user_id,anime_id,rating\n1,20,-1\n1,24,8\n")
    with pytest.raises(InvalidInputError, match="no user and anime with enough ratings"):
        DataFolder(tmp_path)["anime-slice"]


def test_files_are_found_below_the_folder(tmp_path):
    (tmp_path / "downloads" / "ml-1m").mkdir(parents=True)
    (tmp_path / "downloads" / "ml-1m" / "ratings.dat").write_text("1::1::5::1\n")
    folder = DataFolder(tmp_path)
    assert folder.state("movielens-1m") == "here"
    with pytest.raises(InvalidInputError, match="1 users, 1 items and 1 ratings"):
        folder["movielens-1m"]


def test_what_is_missing_is_named_with_its_address(tmp_path, monkeypatch):
    with pytest.raises(MissingData, match=r"ml-1m/ratings\.dat.*grouplens\.org"):
        DataFolder(tmp_path)["movielens-1m"]
    monkeypatch.delenv("TACIT_DATA", raising=False)
    with pytest.raises(MissingData, match="--data or TACIT_DATA"):
        DataFolder()["movielens-1m"]
    with pytest.raises(InvalidInputError, match="a folder with data sets"):
        DataFolder(tmp_path / "nowhere")


def test_stand_ins_are_stated(tmp_path):
    folder = DataFolder(tmp_path)
    assert folder.state("netflix-slice") == "stand-in"
    assert "withdrawn" in folder.note("netflix-slice")
    with pytest.raises(MissingData, match=r"docword\.enron\.txt\.gz.*archive\.ics\.uci\.edu"):
        folder["enron"]  # the official one is asked for, not its stand-in, which is not there either
    assert folder.state("guardian") == "missing"  # its stand-in needs 20 Newsgroups, which is not there either
    assert folder.note("guardian") == ""


def test_a_part_of_a_data_set_is_stated(tmp_path):
    (tmp_path / "interactions").mkdir()
    (tmp_path / "interactions" / "anime_kaggle_30pct.parquet").write_bytes(b"")
    assert "three tenths" in DataFolder(tmp_path).note("anime-slice")
    (tmp_path / "rating.csv").write_text("user_id,anime_id,rating\n")
    assert DataFolder(tmp_path).note("anime-slice") == ""

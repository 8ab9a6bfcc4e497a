"""Term counts of corpora: Cai Deng's .mat files, the UCI bag of words, headlines, and folders of raw posts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import files_under, reading
from tacit.errors import Undisclosed
from tacit.reproduce.data import DataFolder, FileLayout, PaperDataSet, data_set

if TYPE_CHECKING:
    from scipy import sparse

CAI = "http://www.cad.zju.edu.cn/home/dengcai/Data/TextData.html"
UCI = "https://archive.ics.uci.edu/dataset"


@dataclass(frozen=True, eq=False, repr=False)
class Corpus(Undisclosed):
    """Counts of terms (documents x terms, CSR), the terms if they are known, and the class of each document."""

    counts: sparse.csr_array
    terms: tuple[str, ...] = ()
    labels: NDArray[np.int64] | None = None

    def those(
        self, rows: slice | NDArray[np.integer] = slice(None), columns: NDArray[np.integer] | None = None
    ) -> Corpus:
        """Return some documents and some terms."""
        counts = self.counts[rows]
        terms = self.terms
        if columns is not None:
            counts = counts[:, columns]
            terms = tuple(np.asarray(terms)[columns]) if terms else ()
        return Corpus(counts.tocsr(), terms, None if self.labels is None else self.labels[rows])


def read_mat(path: Path) -> Corpus:
    """Read ``fea`` and ``gnd`` of a .mat file of Cai Deng."""
    from scipy.io import loadmat
    from scipy.sparse import csr_array

    with reading(path, "matrix", KeyError):
        stored = loadmat(path)
        counts = csr_array(stored["fea"].astype(np.float64))
        labels = stored["gnd"].ravel().astype(np.int64)
    return Corpus(counts, labels=labels)


def read_npz(path: Path) -> Corpus:
    """Read a CSR matrix of scipy, with ``terms`` and ``labels`` beside it if it has them."""
    from scipy.sparse import csr_array, load_npz

    with reading(path, "matrix", KeyError):
        counts = csr_array(load_npz(path).astype(np.float64))
        with np.load(path, allow_pickle=False) as stored:
            terms = tuple(map(str, stored["terms"])) if "terms" in stored else ()
            labels = stored["labels"].astype(np.int64) if "labels" in stored else None
    return Corpus(counts, terms, labels)


def read_bag_of_words(counts: Path, vocabulary: Path) -> Corpus:
    """Read a bag of words of the UCI: three lines of sizes, then document, term and count, numbered from one."""
    import gzip

    from scipy.sparse import coo_array

    with reading(counts, "bag of words"):
        opened = gzip.open if counts.suffix == ".gz" else open
        with opened(counts, "rt", encoding="utf-8") as lines:
            documents, terms, nonzeros = (int(next(lines)) for _ in range(3))
            triples = np.loadtxt(lines, dtype=np.int64, ndmin=2)
        if len(triples) != nonzeros:
            raise ValueError("count of entries")
        names = tuple(vocabulary.read_text(encoding="utf-8").split())
    places = triples[:, 0] - 1, triples[:, 1] - 1
    return Corpus(coo_array((triples[:, 2].astype(float), places), shape=(documents, terms)).tocsr(), names)


def read_posts(folder: Path) -> Corpus:
    """Read 20 Newsgroups as raw posts, one folder a group: the body after the first blank line, terms of [a-z]{3,}."""
    from sklearn.feature_extraction.text import CountVectorizer

    root = folder
    posts = sorted(path for path in root.glob("20news-bydate-*/*/*") if path.is_file())
    groups = sorted({path.parent.name for path in posts})
    texts = [path.read_text(encoding="latin-1").partition("\n\n")[2] for path in posts]
    counter = CountVectorizer(
        token_pattern=r"(?u)\b[a-z]{3,}\b", stop_words="english", min_df=10, max_df=0.3, max_features=10_000
    )
    with reading(folder, "folder of posts"):
        counts = counter.fit_transform(texts).astype(np.float64).tocsr()
    labels = np.array([groups.index(path.parent.name) for path in posts])
    return Corpus(counts, tuple(counter.get_feature_names_out()), labels)


def _has(documents: int, terms: int | None = None) -> Callable[[Corpus], str]:
    def check(corpus: Corpus) -> str:
        rows, columns = corpus.counts.shape
        fits = rows == documents and terms in (None, columns)
        return "" if fits else f"{rows} documents and {columns} terms"

    return check


data_set(
    PaperDataSet(
        "20newsgroups",
        "20 Newsgroups, sorted by date, 18,846 posts",
        "http://qwone.com/~jason/20Newsgroups/",
        (
            FileLayout(("20news-bydate/",), read_posts),
            FileLayout(("text/20newsgroups_bydate_vocab10000.npz",), read_npz),
        ),
        check=_has(18_846),
    )
)
data_set(
    PaperDataSet(
        "tdt2",
        "TDT2, 9394 documents of 30 topics and 36,771 terms",
        CAI,
        (FileLayout(("TDT2.mat",), read_mat), FileLayout(("text/tdt2_9394x36771.npz",), read_npz)),
        check=_has(9394, 36_771),
    )
)
data_set(
    PaperDataSet(
        "reuters",
        "Reuters-21578, ModApte, 8293 documents and 18,933 terms",
        CAI,
        (FileLayout(("Reuters21578.mat",), read_mat), FileLayout(("text/reuters21578_8293x18933.npz",), read_npz)),
        check=_has(8293, 18_933),
    )
)
data_set(
    PaperDataSet(
        "enron",
        "Enron e-mail of the UCI's bag of words, 39,861 messages and 28,102 terms",
        f"{UCI}/164/bag+of+words",
        (
            FileLayout(("docword.enron.txt.gz", "vocab.enron.txt"), read_bag_of_words),
            FileLayout(("docword.enron.txt", "vocab.enron.txt"), read_bag_of_words),
        ),
        check=_has(39_861, 28_102),
        stand_in=lambda folder: folder["enron-mailboxes"],
        stand_in_title="for Enron of the UCI's bag of words, 16,921 messages of six Enron mailboxes with 6938 terms.",
        stand_in_needs=("enron-mailboxes",),
    )
)
data_set(
    PaperDataSet(
        "enron-mailboxes",
        "counts of 16,921 Enron messages in six mailboxes",
        "http://www2.aueb.gr/users/ion/data/enron-spam/",
        (FileLayout(("text/enron_6mailboxes_vocab8000.npz",), read_npz),),
        check=_has(16_921),
    )
)


def _rcv1_like(folder: DataFolder) -> Corpus:
    return folder["reuters"]  # type: ignore[no-any-return]


data_set(
    PaperDataSet(
        "rcv1-4class",
        "RCV1_4Class.mat, 9625 documents of 4 classes and 29,992 terms",
        CAI,
        (FileLayout(("RCV1_4Class.mat",), read_mat),),
        check=_has(9625, 29_992),
        stand_in=_rcv1_like,
        stand_in_title="for RCV1 (4 classes), Reuters-21578 of the same publisher, 8293 documents and 18,933 terms.",
        stand_in_needs=("reuters",),
    )
)

GUARDIAN = (4551, 10_285)
"""Documents and terms of the Guardian articles (Saha and Imtiaz, Table 2)."""


def _guardian_like(folder: DataFolder) -> Corpus:
    """As many posts of eight newsgroups, in equal parts."""
    posts: Corpus = folder["20newsgroups"]
    if posts.labels is None:
        return posts
    groups = np.unique(posts.labels)[::5][:4].tolist() + np.unique(posts.labels)[2::5][:4].tolist()
    draw = np.random.default_rng(0)
    per_group = -(-GUARDIAN[0] // len(groups))
    rows = np.concatenate([draw.permutation(np.flatnonzero(posts.labels == group))[:per_group] for group in groups])
    return posts.those(np.sort(rows[: GUARDIAN[0]]))


def read_articles(folder: Path) -> Corpus:
    """Read a folder of texts, one file an article."""
    from sklearn.feature_extraction.text import CountVectorizer

    _, paths = files_under(folder, {".txt"})
    counter = CountVectorizer(stop_words="english", min_df=10, max_df=0.5)
    counts = counter.fit_transform([path.read_text(encoding="utf-8", errors="replace") for path in paths])
    return Corpus(counts.astype(np.float64).tocsr(), tuple(counter.get_feature_names_out()))


data_set(
    PaperDataSet(
        "guardian",
        "4551 articles of the Guardian (O'Callaghan et al. 2015)",
        "http://mlg.ucd.ie/howmanytopics/",
        (FileLayout(("guardian/",), read_articles),),
        check=_has(GUARDIAN[0]),
        stand_in=_guardian_like,
        stand_in_title="for the Guardian articles, 4551 posts of eight of the 20 Newsgroups and 10,000 terms.",
        stand_in_needs=("20newsgroups",),
    )
)

HEADLINES_EACH = 750
"""Headlines of each category (Saha and Imtiaz, page 7)."""


@dataclass(frozen=True, eq=False, repr=False)
class Headlines(Undisclosed):
    """Titles and their categories: business, entertainment, medicine, technology."""

    titles: tuple[str, ...]
    categories: tuple[str, ...]


def read_headlines(path: Path) -> Headlines:
    """Read ``newsCorpora.csv``: eight columns separated by tabs; the second is the title and the fifth the category."""
    with reading(path, "headlines", IndexError):
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        return Headlines(tuple(line[1] for line in lines), tuple(line[4] for line in lines))


def _headlines_csv(path: Path) -> Headlines:
    import polars as pl

    with reading(path, "headlines", pl.exceptions.PolarsError):
        frame = pl.read_csv(path)
    return Headlines(tuple(frame["title"]), tuple(frame["category"]))


def _enough(headlines: Headlines) -> str:
    counts = {name: headlines.categories.count(name) for name in "betm"}
    return "" if min(counts.values()) >= HEADLINES_EACH else f"{min(counts.values())} headlines of one category"


data_set(
    PaperDataSet(
        "news-aggregator",
        "the UCI News Aggregator, of which 750 headlines of each of 4 categories are used",
        f"{UCI}/359/news+aggregator",
        (
            FileLayout(("newsCorpora.csv",), read_headlines),
            FileLayout(("text/news_aggregator_headlines_subset.csv.gz",), _headlines_csv),
        ),
        check=_enough,
    )
)

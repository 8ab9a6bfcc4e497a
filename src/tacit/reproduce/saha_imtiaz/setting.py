"""The setting of the experiments (section 4): data sets, their ranks, and the algorithm as printed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tacit.errors import Undisclosed
from tacit.estimators.input import Rows
from tacit.factor.arrays import SomeFloats
from tacit.factor.nmf.private import PrivateNMF
from tacit.factor.nmf.saha_imtiaz import SahaImtiazSettings, unit_ball
from tacit.factor.nmf.start import nndsvd
from tacit.measure import held_out_error
from tacit.privacy.published import dwork_roth_noise_multiplier, saha_epsilon
from tacit.reproduce.catalogue import ItemRun
from tacit.reproduce.datasets.texts import HEADLINES_EACH, Corpus, Headlines

if TYPE_CHECKING:
    pass

DELTA = 1e-5
"""Page 7."""
STEP_RATIO = 15_000
"""eta_W is "about 10,000 to 20,000 times" lower than eta_H (page 7). The gradient of H is divided by N, so eta_H is about N."""
ALGORITHM = ("tacit.factor.nmf.saha_imtiaz.published_program", "tacit.PrivateNMF")
Table = TypeVar("Table", NDArray[np.float64], csr_array)


@dataclass(frozen=True, eq=False, repr=False)
class Case(Undisclosed):
    """Rows to factorise, scaled to length 1; `shape` of pictures, `terms` and `counts` of texts."""

    title: str
    X: Rows
    rank: int
    shape: tuple[int, int] = (0, 0)
    terms: tuple[str, ...] = ()
    counts: csr_array = field(default_factory=lambda: csr_array((0, 0)))


def unit_rows(X: Table) -> Table:
    """Scale the rows to length 1, which the sensitivity of B assumes (page 6)."""
    from sklearn.preprocessing import normalize

    scaled: Table = normalize(X)
    return scaled


def text_case(title: str, corpus: Corpus, rank: int, run: ItemRun, *, one_of: int = 1) -> Case:
    """Return the TF-IDF of a corpus; one of `one_of` terms is used, at random."""
    from sklearn.feature_extraction.text import TfidfTransformer

    draw = np.random.default_rng(run.seed)
    size = corpus.counts.shape[1] // one_of
    columns = np.sort(draw.choice(corpus.counts.shape[1], size, replace=False)) if one_of > 1 else None
    kept = corpus.those(slice(0, None), columns)
    if run.quick:
        kept = kept.those(draw.permutation(kept.counts.shape[0])[:150], np.arange(min(200, size)))
    filled = np.flatnonzero(np.diff(kept.counts.indptr) > 0)
    kept = kept.those(filled)
    X = TfidfTransformer().fit_transform(kept.counts).tocsr()
    return Case(title, X, run.pick(rank, min(rank, 4)), terms=kept.terms, counts=kept.counts)


def headline_case(headlines: Headlines, run: ItemRun) -> Case:
    """Return 750 headlines of each category over the 93 most frequent terms."""
    from sklearn.feature_extraction.text import CountVectorizer

    categories = np.array(headlines.categories)
    draw = np.random.default_rng(run.seed)
    rows = np.concatenate([draw.permutation(np.flatnonzero(categories == name))[:HEADLINES_EACH] for name in "betm"])
    counter = CountVectorizer(stop_words="english", token_pattern=r"(?u)\b[a-z]{3,}\b", max_features=93)
    counts = counter.fit_transform([headlines.titles[row] for row in rows]).astype(np.float64).tocsr()
    return text_case("UCI news", Corpus(counts, tuple(counter.get_feature_names_out())), 4, run)


def texts(run: ItemRun) -> dict[str, Callable[[], Case]]:
    """Return the four text data sets (Table 2)."""
    return {
        "guardian": lambda: text_case("Guardian", run.data["guardian"], 8, run),
        "news-aggregator": lambda: headline_case(run.data["news-aggregator"], run),
        "rcv1-4class": lambda: text_case("RCV1", run.data["rcv1-4class"], 4, run, one_of=10),
        "tdt2": lambda: text_case("TDT2", run.data["tdt2"], 30, run, one_of=10),
    }


def face_case(title: str, name: str, rank: int, run: ItemRun) -> Case:
    """Return faces as rows."""
    faces = run.data[name]
    rows = np.random.default_rng(run.seed).permutation(len(faces.X))[: run.pick(len(faces.X), 120)]
    return Case(title, unit_rows(faces.X[rows]), run.pick(rank, 4), shape=faces.shape)


def faces(run: ItemRun) -> dict[str, Callable[[], Case]]:
    """Return the two face data sets (Table 2)."""
    return {
        "yale-b": lambda: face_case("Yale B", "yale-b", 38, run),
        "cbcl": lambda: face_case("CBCL", "cbcl", 50, run),
    }


def published(
    case: Case, epsilon_t: float, rounds: int, seed: int, *, outliers: float | None = None, keep_every: int = 1
) -> PrivateNMF:
    """Algorithm 2 as printed, with the noise of `epsilon_t` in each of `rounds` iterations; inf is without noise."""
    settings = SahaImtiazSettings(eta_W=case.X.shape[0] / STEP_RATIO, epsilon_t=epsilon_t, keep_every=keep_every)
    model = PrivateNMF(
        case.rank,
        delta=DELTA,
        method="published",
        rounds=rounds,
        outliers=outliers,
        published=settings,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has no guarantee, which every page says
        return model.fit(case.X)


def start(case: Case, seed: int) -> NDArray[np.float64]:
    """Return the dictionary from which Algorithm 2 starts: the NNDSVD of the private data, without noise (page 7)."""
    return unit_ball(np.asarray(nndsvd(case.X, case.rank, random_state=seed)[1], dtype=np.float64))


def overall(epsilon_t: float, rounds: int) -> float:
    """Return the overall epsilon of Theorem 3.1."""
    return saha_epsilon([dwork_roth_noise_multiplier(epsilon_t, DELTA)] * 2, rounds, DELTA)


def objective(X: Rows, T: SomeFloats) -> float:
    """Return the objective value (eq. 15), at the best weights for the dictionary."""
    return float(held_out_error(X, T))

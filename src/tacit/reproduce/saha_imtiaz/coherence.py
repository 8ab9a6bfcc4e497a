"""Table 3 and Figures 4, 9 and 10: topics, their words, their coherence, and the number of topics."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.factor.arrays import SomeFloats
from tacit.factor.nmf.estimator import NMF
from tacit.measure import match_topics, top_words, topic_coherence
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide, WordList, WordLists
from tacit.reproduce.saha_imtiaz.setting import ALGORITHM, Case, published, texts

if TYPE_CHECKING:
    from scipy import sparse

PAPER = {
    "guardian": {0.5: 0.4511, 0.6: 0.4529, 0.7: 0.4535, 0.8: 0.4547, 0.9: 0.4543, 0.999: 0.4540, math.inf: 0.4658},
    "news-aggregator": {
        **{0.5: 0.9996975, 0.6: 0.9996895, 0.7: 0.9996849, 0.8: 0.9996836, 0.9: 0.9996832, 0.999: 0.9996839},
        math.inf: 0.9996816,
    },
}
"""Table 3, page 7: mean TC-W2V coherence by epsilon of one iteration."""
DIMENSIONS, TOP = 100, 10
"""Length of a word vector, and words per topic. Both are usual; the paper states neither."""


def embedding(counts: sparse.csr_array) -> NDArray[np.float64]:
    """Return vectors of the terms: the leading eigenvectors of the positive pointwise mutual information of documents.

    Word2vec's skip-gram factorises this matrix implicitly (Levy and Goldberg 2014); here it is factorised directly.
    """
    from scipy.sparse.linalg import svds

    occurs = counts.copy()
    occurs.data = np.ones_like(occurs.data)
    together = (occurs.T @ occurs).tocoo()
    alone = np.asarray(occurs.sum(axis=0)).ravel()
    information = np.log(together.data * counts.shape[0] / (alone[together.row] * alone[together.col]))
    together.data = np.maximum(information, 0.0)
    size = min(DIMENSIONS, counts.shape[1] - 1)
    vectors, values, _ = svds(together.tocsr(), k=size, random_state=0)
    embedded: NDArray[np.float64] = vectors * np.sqrt(values)
    return embedded


def embedded_coherence(T: SomeFloats, vectors: NDArray[np.float64]) -> float:
    """Return the mean cosine of the vectors of all pairs of a topic's most important words (TC-W2V), over the topics."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    means = []
    for topic in T:
        top = np.argsort(-topic)[:TOP]
        means.append(np.mean([unit[a] @ unit[b] for a, b in combinations(top, 2)]))
    return float(np.mean(means))


@item(
    paper="saha-imtiaz",
    name="table-3",
    title="average coherence score",
    page=7,
    needs=("guardian", "news-aggregator"),
    minutes=5,
    code=(*ALGORITHM, "tacit.measure.topic_coherence"),
)
def table_3(run: ItemRun) -> ItemOutcome:
    """Coherence of the private topics by epsilon of one iteration."""
    rows = []
    for name, make in run.each([pair for pair in texts(run).items() if pair[0] in PAPER]):
        case = make()
        vectors, counts = embedding(case.counts), case.counts
        for budget, paper in PAPER[name].items():
            if run.quick and budget not in (0.5, math.inf):
                continue
            fits = [published(case, budget, run.pick(30, 2), seed).components_ for seed in run.seeds]
            label = "without privacy" if math.isinf(budget) else f"epsilon_i = {budget:g}"
            remark = (
                "The paper's word vectors are not published and the articles are others: compare the trend."
                if name == "guardian"
                else "Scores of 0.9997 mean that the paper's word vectors of 3000 headlines point in one direction."
            )
            rows += [
                Row(
                    (case.title, label, "word vectors"),
                    paper,
                    tuple(embedded_coherence(T, vectors) for T in fits),
                    remark=remark,
                ),
                Row(
                    (case.title, label, "c_npmi"),
                    None,
                    tuple(float(topic_coherence(T, counts).mean()) for T in fits),
                    remark="Measured on the documents themselves.",
                ),
            ]
    return ItemOutcome(
        (SideBySide("Mean coherence of the topics' 10 words", ("data", "budget", "measure"), tuple(rows)),)
    )


def topic_words(case: Case, rounds: int, budget: float, seed: int, n: int) -> tuple[WordList, ...]:
    """List the words of each topic without and with privacy, matched."""
    plain = published(case, math.inf, rounds, seed).components_
    private = published(case, budget, rounds, seed).components_
    match = match_topics(plain, private)
    lists = []
    for place, (one, other) in enumerate(
        zip(top_words(plain, case.terms, n), top_words(private[match.permutation], case.terms, n), strict=True)
    ):
        lists.append(WordList(f"topic {place + 1}, without privacy", tuple(one)))
        lists.append(WordList(f"topic {place + 1}, epsilon_i = {budget:g}", tuple(other)))
    return tuple(lists)


@item(
    paper="saha-imtiaz",
    name="figure-4",
    title="topic words without and with privacy",
    page=9,
    needs=("guardian", "news-aggregator"),
    minutes=2,
    code=(*ALGORITHM, "tacit.measure.match_topics"),
)
def figure_4(run: ItemRun) -> ItemOutcome:
    """Words of the topics of two data sets."""
    shown = []
    for name, make in run.each([pair for pair in texts(run).items() if pair[0] in PAPER]):
        del name
        case = make()
        caption = f"{case.title}: words of the topics, epsilon_i = 0.5, delta = 1e-5"
        shown.append(WordLists(caption, topic_words(case, run.pick(30, 2), 0.5, run.seed, 6)))
    return ItemOutcome(words=tuple(shown))


@item(
    paper="saha-imtiaz",
    name="figure-9",
    title="topic words of the Guardian articles",
    page=14,
    needs=("guardian",),
    minutes=1,
    code=("tacit.NMF", "tacit.measure.top_words"),
)
def figure_9(run: ItemRun) -> ItemOutcome:
    """Words of eight topics, without privacy."""
    case = texts(run)["guardian"]()
    T = NMF(case.rank, max_iter=run.pick(100, 3), random_state=run.seed).fit(case.X).components_
    lists = tuple(WordList(f"topic {place + 1}", tuple(top)) for place, top in enumerate(top_words(T, case.terms, 10)))
    return ItemOutcome(words=(WordLists("The ten words of largest weight in each topic", lists),))


@item(
    paper="saha-imtiaz",
    name="figure-10",
    title="mean coherence by number of topics",
    page=15,
    needs=("guardian",),
    minutes=3,
    code=("tacit.NMF", "tacit.measure.topic_coherence", "tacit.factor.nmf.choose_rank.choose_rank"),
)
def figure_10(run: ItemRun) -> ItemOutcome:
    """The paper chooses K = 8 at the maximum."""
    case = texts(run)["guardian"]()
    ranks = run.pick(tuple(range(4, 17)), (3, 4))
    vectors = embedding(case.counts)
    coherences: dict[str, list[list[float]]] = {"word vectors": [], "c_npmi": []}
    for rank in run.each(ranks):
        fits = [
            NMF(rank, max_iter=run.pick(60, 3), init="random", random_state=seed).fit(case.X).components_
            for seed in run.seeds
        ]
        coherences["word vectors"].append([embedded_coherence(T, vectors) for T in fits])
        coherences["c_npmi"].append([float(topic_coherence(T, case.counts).mean()) for T in fits])
    best = {name: ranks[int(np.argmax(np.mean(values, axis=1)))] for name, values in coherences.items()}
    return ItemOutcome(
        figures=(
            Figure(
                "Mean coherence by number of topics",
                "number of topics K",
                "mean coherence",
                tuple(Curve.of(name, ranks, np.array(values).T) for name, values in coherences.items()),
            ),
        ),
        verdicts=(
            f"The coherence is largest at K = {best['word vectors']} by word vectors and K = {best['c_npmi']} by c_npmi; "
            "the paper finds 8 on its own articles.",
        ),
    )

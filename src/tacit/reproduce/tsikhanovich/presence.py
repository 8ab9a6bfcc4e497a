"""Table 2 and Figure 6: whether a document's presence shows in what leaves its holder (KSDP)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tacit.factor.nmf.estimator import NMF
from tacit.factor.svd.estimator import SVD
from tacit.measure.ksdp import KSDP, Observation, ksdp
from tacit.measure.ksdp.statistics import Statistic, Vector, nmf_statistics, svd_statistics
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide
from tacit.reproduce.tsikhanovich.corpora import rating_matrix, weighted

PAPER = {
    "recommender": {0.005: 0.45, 0.03: 0.52, 0.1: 0.48},
    "topics": {0.005: 0.029, 0.03: 0.044, 0.1: 0.113},
}
"""Table 2, page 16: mean p-value by party size."""
DOCUMENTS, SAMPLES, RANK = 50, 200, 7
"""Documents, runs with and without each, and rank, as on page 16, where k is 7 or 14; the number of runs decides how small a
p-value can be, that of the documents how well their mean is known."""
FIGURE_SIZES = (0.005, 0.03, 0.1, 0.333)
"""Size of a party as a fraction of all rows: those of Table 2, and a third."""
FIGURE_DOCUMENTS, FIGURE_SAMPLES = 25, 50
"""Runs with and without each document as on page 18, where the p-value depends on them; 25 of its 200 documents, for time:
each point takes as many fits as their product."""
OWN = " (own estimate)"
"""Ends the names of the statistics that use the adversary's own estimate of the singular values."""


def chosen(X: csr_array, count: int, seed: int) -> list[int]:
    """Draw documents of interest."""
    return [int(row) for row in np.random.default_rng(seed).choice(X.shape[0], count, replace=False)]


def presence(run: ItemRun, table: Callable[[], csr_array], size: float, documents: int, samples: int) -> dict[str, Any]:
    """Return the p-values of the documents in a party of this size, and how many documents are flagged."""
    X = table()
    model = NMF(run.pick(RANK, 2), init="random", max_iter=run.pick(10, 2))
    own = max(int(size * X.shape[0]), 8)
    of = chosen(X, documents, run.seed)
    found = ksdp(model, X, of, statistics=[nmf_statistics], samples=samples, size=own, jobs=1)
    return {"p": found.pi.tolist(), "flagged": len(found.flagged)}


@item(
    paper="tsikhanovich",
    name="table-2",
    title="p-value by party size, PD-NMF",
    page=16,
    needs=("movielens-1m", "enron"),
    minutes=40,
    code=("tacit.measure.ksdp.ksdp", "tacit.measure.ksdp.statistics.nmf_statistics", "tacit.NMF"),
)
def table_2(run: ItemRun) -> ItemOutcome:
    """All others collude: the adversary sees the sums of one holder."""
    documents, samples = run.pick((DOCUMENTS, SAMPLES), (2, 8))
    tables = {"recommender": lambda: rating_matrix(run), "topics": lambda: weighted(run, "enron")[0]}
    cases = [(name, size) for name in PAPER for size in run.pick((0.005, 0.03, 0.1), (0.1,))]
    rows = []
    for name, size in run.each(cases):
        cell = run.part(f"{name}-{size:g}", partial(presence, run, tables[name], size, documents, samples))
        remark = f"{cell['flagged']} of {documents} documents are flagged after Holm's correction; " + (
            "ratings that are missing are zeros here." if name == "recommender" else "the e-mail differs."
        )
        rows.append(Row((name, f"{size:g}"), PAPER[name][size], tuple(cell["p"]), remark=remark, decimals=3))
    caption = f"p-value, mean over {documents} documents (n), {samples} runs each way, k = {RANK}"
    return ItemOutcome(
        (SideBySide(caption, ("data", "party size"), tuple(rows)),),
        verdicts=(
            "A large p-value is not evidence of privacy: it means that this statistic, with this number of runs, does not see "
            "the document. The paper reads 0.029 and 0.044 for topics as private; by its own criterion of 0.05 they are not.",
        ),
    )


def least_p(measured: KSDP, marked: str = "") -> Vector:
    """Return the smallest p-value of each document over the statistics whose names end in `marked`."""
    columns = [place for place, name in enumerate(measured.statistics) if name.endswith(marked)]
    smallest: Vector = measured.p_values[:, columns].min(axis=1)
    return smallest


def from_values(values: Vector, mark: str) -> Statistic:
    """Return the six statistics for an adversary who believes in these singular values; `mark` ends their names."""

    def statistics(observation: Observation, document: Vector) -> dict[str, float]:
        numbers = svd_statistics(observation, document, values=values)
        return {f"{name}{mark}": number for name, number in numbers.items()}

    return statistics


@item(
    paper="tsikhanovich",
    name="figure-6",
    title="p-value by party size, PD-SVD, with hidden and revealed singular values",
    page=18,
    needs=("enron", "million-songs"),
    minutes=5,
    code=("tacit.measure.ksdp.ksdp", "tacit.measure.ksdp.statistics.svd_statistics", "tacit.SVD"),
)
def figure_6(run: ItemRun) -> ItemOutcome:
    """The six statistics of section 5.2, for 25 documents instead of the paper's 200."""
    documents, samples = run.pick((FIGURE_DOCUMENTS, FIGURE_SAMPLES), (2, 8))
    songs = run.data["million-songs"].X
    tables = {
        "LRA, Enron, 300 terms": weighted(run, "enron", 300)[0],
        "PCR, Million Songs": (songs - songs.mean(axis=0))[: run.pick(4000, 300)] / songs.std(axis=0),
    }
    sizes = run.pick(FIGURE_SIZES, (0.1,))
    figures, verdicts = [], []
    for title, X in tables.items():
        documents_of = chosen(X, documents, run.seed)
        own_estimate, ratios, revealed = "hidden, own estimate", "hidden, ratios used", "singular values revealed"
        lines: dict[str, list[Vector]] = {own_estimate: [], ratios: [], revealed: []}
        for size in run.each(sizes):
            count, rank = max(int(size * X.shape[0]), 12), run.pick(RANK, 2)
            hiding, revealing = (SVD(rank, hide_singular_values=hide, tol=1e-6) for hide in (True, False))
            # the adversary estimates the hidden singular values by those of its own rows
            own = np.asarray(
                SVD(rank, hide_singular_values=False, tol=1e-6).fit(X[:count]).singular_values_, dtype=np.float64
            )
            used: dict[str, Any] = {"samples": samples, "size": count, "jobs": 1}
            hidden = ksdp(hiding, X, documents_of, statistics=[svd_statistics, from_values(own, OWN)], **used)
            shown = ksdp(revealing, X, documents_of, statistics=[svd_statistics], **used)
            lines[own_estimate].append(least_p(hidden, OWN))
            lines[ratios].append(least_p(hidden, "xx'"))
            lines[revealed].append(least_p(shown))
        figures.append(
            Figure(
                f"{title}: mean smallest p-value, {documents} documents, {samples} runs each way",
                "party size (fraction of the rows)",
                "p-value",
                tuple(Curve.of(label, sizes, np.array(values).T) for label, values in lines.items()),
                log_x=len(sizes) > 1,
            )
        )
        means = {label: [float(p.mean()) for p in values] for label, values in lines.items()}
        verdicts.append(
            f"{title}: at party sizes {', '.join(f'{size:g}' for size in sizes)} the mean p-value is "
            + "; ".join(f"{', '.join(f'{p:.2f}' for p in found)} ({label})" for label, found in means.items())
            + "."
        )
    return ItemOutcome(
        figures=tuple(figures),
        verdicts=(
            *verdicts,
            "The smallest of six p-values is compared. If no document made a difference, its mean would be between 0.14 (six "
            "independent statistics) and 0.5 (six equal ones). The bands are the standard deviation over the documents.",
            "The ratios of the singular values follow from the directions that the parties see, so hiding their scale hides "
            "less than the paper assumes: the second curve uses them.",
        ),
    )

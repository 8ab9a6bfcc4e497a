"""Draw the pictures of README and documentation that are not made when the documentation is built.

    python benchmarks/draw_pictures.py            # writes docs/pictures/*.svg but private_nmf.svg, and parts.png

A frontier is error or quality against epsilon, beside peers. Its figures are read from the tables of docs/results, so that a
picture shows what its table says; draw again after a table has changed. The parts are those of examples/plot_private_parts.py.
"""

from __future__ import annotations

import math
import re
import runpy
import sys
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
OURS, OTHERS, PLAIN, FREE = ("#1f6f8b", "#4aa3bf"), ("#b5651d", "#8e5ea2", "#7a8b3c", "#c2453d"), "#111827", "#6b7280"
MARKERS = "osv^D"


@dataclass(frozen=True)
class Panel:
    """One picture's axis: curves over epsilon (or what `over` names), and levels that do not depend on it.

    What is below `lowest` is not shown.
    """

    title: str
    value: str
    ours: dict[str, dict[float, float]]
    others: dict[str, dict[float, float]] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)
    logarithmic: bool = False
    over: str = "epsilon (smaller is more private)"
    lowest: float | None = None


def number(cell: str) -> float | None:
    """Return the first number of a cell of a table, or None where there is none."""
    found = re.match(r"[*_~ ]*(-?[\d,]+(?:\.\d+)?)", cell)
    return float(found[1].replace(",", "")) if found else None


def table(page: str, *header: str) -> list[list[str]]:
    """Return the rows of the first table of a page whose header has these words, header included."""
    lines = (DOCS / "results" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines[:-1]):
        if line.startswith("|") and lines[place + 1].startswith("|-") and all(word in line for word in header):
            rows = [line]
            for other in lines[place + 2 :]:
                if not other.startswith("|"):
                    break
                rows.append(other)
            return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    raise SystemExit(f"expected a table with {header} in docs/results/{page}.md")


def down(rows: list[list[str]], column: str) -> dict[float, float]:
    """Return a column of a table with one row per epsilon."""
    place = rows[0].index(column)
    pairs = ((number(row[0]), number(row[place])) for row in rows[1:] if re.match(r"[\d.]+$", row[0]))
    return {epsilon: value for epsilon, value in pairs if epsilon is not None and value is not None}


def across(
    rows: list[list[str]], label: str, *, after: str = "", column: int = 0, scale: float = 1.0
) -> dict[float, float]:
    """Return the row that a label names, of a table with one column per epsilon; `after` names a row above it."""
    epsilons = {place: number(name.replace("epsilon", "").strip()) for place, name in enumerate(rows[0])}
    started = not after
    for row in rows[1:]:
        started = started or after in row[0]
        if started and label in row[column]:
            cells = {epsilons[place]: number(cell) for place, cell in enumerate(row) if place > column}
            return {
                epsilon: scale * value for epsilon, value in cells.items() if epsilon is not None and value is not None
            }
    raise SystemExit(f"expected a row {label!r} in the table {rows[0]}")


def ratings() -> Panel:
    """Return the errors of recommenders from ratings."""
    rows = table("recommender", "epsilon", "noisy biases")
    plain = next(row for row in rows if row[0] == "no privacy")
    quoted = "Ermis 2020, unit of one *cell*"
    return Panel(
        "Ratings: MovieLens 1M, unit user",
        "held-out RMSE",
        {"tacit, with genres and years": down(rows, "with genres and years"), "tacit": down(rows, "tacit")},
        {
            "noisy biases": down(rows, "noisy biases"),
            "DP-ALS, accounting repaired": down(rows, "DP-ALS, its accounting repaired"),
            "one noisy covariance": down(rows, "one noisy covariance"),
            "Ermis 2020 (unit: one cell)": down(rows, quoted),
        },
        {"no privacy": number(plain[rows[0].index("tacit")]) or 0.0, "a user's own mean (free)": 1.039},
    )


def clicks() -> Panel:
    """Return the recall of lists from clicks."""
    rows = table("recommender", "epsilon", "AM-SSP", "tacit, titles")
    plain = next(row for row in rows if row[0] == "none")
    return Panel(
        "Lists from clicks: MovieLens 1M, unit user",
        "recall at 20",
        {"tacit, with features": down(rows, "tacit, features"), "tacit": down(rows, "tacit")},
        {
            "one noisy second moment": down(rows, "sketch"),
            "AM-SSP, features": down(rows, "AM-SSP, features"),
            "AM-SSP": down(rows, "AM-SSP"),
        },
        {"no privacy": number(plain[rows[0].index("tacit")]) or 0.0, "popularity": number(plain[1]) or 0.0},
    )


def components(after: str, title: str) -> Panel:
    """Return the losses of private principal components on one data set."""
    rows = table("svd", "data", "method", "epsilon 0.1", "without privacy")
    start = next(place for place, row in enumerate(rows) if after in row[0])
    part = [rows[0][:-1], *(row[:-1] for row in rows[start : start + 4])]
    pca = [part[0], *part[3:5]]
    columns, rank = (int(found) for found in re.search(r"x (\d+).*k = (\d+)", part[1][0]).groups())  # type: ignore[union-attr]
    return Panel(
        title,
        "held-out loss of the components",
        {"tacit, PrivatePCA": across(pca, "PrivatePCA", column=1)},
        {"Analyze Gauss": across(pca, "Analyze Gauss", column=1)},
        {"no privacy": number(rows[start + 2][-1]) or 0.0, "random directions (free)": 1 - rank / columns},
    )


def regression() -> Panel:
    """Return the errors of private principal component regression."""
    rows = table("svd", "predictor", "epsilon 0.1")
    return Panel(
        "Regression on components: online news",
        "held-out RMSE of log shares",
        {"tacit, PrivatePCR": across(rows, "PrivatePCR")},
        {"the noisy mean target alone": across(rows, "noisy mean")},
        {
            "no privacy": across(rows, "without privacy")[1.0],
            "the middle of the range (free)": across(rows, "middle of the range")[1.0],
        },
    )


def small_ratings() -> Panel:
    """Return the errors of recommenders from few ratings, with and without non-negative factors."""
    rows = table("recommender", "model", "epsilon 0.3", "no privacy")
    part = [row[:-1] for row in rows]
    return Panel(
        "Ratings: MovieLens 100K, unit user",
        "held-out RMSE",
        {
            "tacit, PrivateRatingNMF": across(part, "PrivateRatingNMF"),
            "tacit, PrivateRecommender": across(part, "PrivateRecommender"),
        },
        {},
        {
            "RatingNMF, no privacy": next(number(row[-1]) or 0.0 for row in rows if "PrivateRatingNMF" in row[0]),
            "a user's own mean (free)": across(part, "own mean")[1.0],
        },
    )


def documents() -> list[Panel]:
    """Return the coherence of private topics against the number of documents, one panel per corpus."""
    rows = table("nmf", "corpus", "documents", "epsilon 1", "different words")
    epsilons = {place: name for place, name in enumerate(rows[0]) if name.startswith("epsilon")}
    corpora = dict.fromkeys(row[0] for row in rows[1:])
    panels = []
    for corpus in corpora:
        lines: dict[str, dict[float, float]] = {name: {} for name in epsilons.values()}
        for row in rows[1:]:
            if row[0] == corpus:
                for place, name in epsilons.items():
                    lines[name][number(row[1]) or 0.0] = percent(row[place])
        panels.append(
            Panel(
                corpus,
                "c_npmi, % of the fit without privacy",
                {},
                lines,
                {"without privacy": 100.0, "four fifths": 80.0},
                over="documents",
                lowest=0.0,
            )
        )
    return panels


def percent(cell: str) -> float:
    """Return the percentage in a cell."""
    found = re.search(r"(-?\d+)%", cell)
    if found is None:
        raise SystemExit(f"expected a percentage in the cell {cell!r}")
    return float(found[1])


def parts() -> Panel:
    """Return the errors of private dictionaries of faces."""
    rows = table("nmf", "method", "epsilon 0.3")
    levels = {
        shown: across(rows, name)[1.0]
        for name, shown in (
            ("without privacy", "no privacy"),
            ("best constant", "the constant (free)"),
            ('best rank-1 "mean face"', "the mean face"),
        )
    }
    return Panel(
        "Parts of faces: CBCL, 2,000 rows, k = 10",
        "held-out error",
        {"tacit, moments": across(rows, '`method="moments"`')},
        {
            "one noisy second moment": across(rows, "one noisy second moment"),
            "10 noisy rounds": across(rows, '`method="rounds"`, 10 rounds, free start'),
            "as published (no guarantee)": across(rows, '`method="published"`'),
        },
        levels,
    )


def networks() -> Panel:
    """Return the errors of private networks on MNIST."""
    rows = [row[:-1] for row in table("neural", "fit", "epsilon 20", "no privacy")]

    def errors(label: str) -> dict[float, float]:
        return {epsilon: 100 - accuracy for epsilon, accuracy in across(rows, label).items()}

    return Panel(
        "Networks: MNIST",
        "wrong test images, %",
        {"tacit, dropout": errors("scattering, linear, `dropout`")},
        {
            "tacit, sgld": errors("scattering, linear, `sgld`"),
            "tacit, dp-sgd": errors("scattering, linear, `dp-sgd`"),
            "thesis (its epsilon does not hold)": errors("thesis"),
        },
        {"no privacy": 100 - 98.3, "the most frequent class (free)": errors("most frequent class")[1.0]},
        logarithmic=True,
    )


def coupled() -> Panel:
    """Return the errors of private coupled factorisation over ten sites."""
    rows = table("private_coupled", "unit", "protect", "thesis, Table 7.7")
    ours: dict[str, dict[float, float]] = {}
    thesis: dict[str, dict[float, float]] = {}
    for row in rows[1:]:
        if row[0] == "cell":
            epsilon = float(row[2])
            ours.setdefault(f"tacit, protect {row[1]}", {})[epsilon] = number(row[6]) or 0.0
            thesis.setdefault(f"thesis, protect {row[1]}", {})[epsilon] = float(row[7].split("/")[3])
    plain = next(row for row in rows if row[0].startswith("no noise"))
    return Panel(
        "Ten sites: MovieLens 1M, unit cell",
        "held-out RMSE",
        ours,
        thesis,
        {"no privacy": number(plain[6]) or 0.0, "the constant": 1.112},
    )


def coupled_alone() -> Panel:
    """Return the errors of private coupled factorisation of one site."""
    rows = table("private_coupled", "no noise", "0.3")
    epsilons = [float(cell) for cell in rows[0][1:6]]
    errors = {row[0].removesuffix(", RMSE"): row[1:] for row in rows[1:] if row[0].endswith("RMSE")}
    return Panel(
        "One site: MovieLens 100k, protect site",
        "held-out RMSE",
        {
            name: {epsilon: number(cell) or 0.0 for epsilon, cell in zip(epsilons, row, strict=False)}
            for name, row in errors.items()
        },
        {},
        {"no privacy": number(errors["unit user"][5]) or 0.0, "a user's own mean (free)": 1.042},
    )


def tables() -> Panel:
    """Return the AUC of classifiers that are trained on a private table and tested on real rows."""
    rows = table("tables", "2-way total variation", "AUC of income")
    at = {float(row[0].split()[1]): row for row in rows[1:] if row[0].startswith("epsilon")}
    return Panel(
        "Synthetic table: Adult, trained on synthetic rows, tested on real ones",
        "AUC of boosted trees",
        {
            "income": {epsilon: number(row[2]) or 0.0 for epsilon, row in at.items()},
            "sex": {epsilon: number(row[3]) or 0.0 for epsilon, row in at.items()},
        },
        {},
        {"income, real rows": number(rows[1][2]) or 0.0, "sex, real rows": number(rows[1][3]) or 0.0},
    )


def draw(axis: Axes, panel: Panel) -> None:
    """Draw a panel: our curves in blue, others in other colours, levels as horizontal lines."""
    epsilons = sorted({epsilon for line in (*panel.ours.values(), *panel.others.values()) for epsilon in line})
    for lines, colours, width in ((panel.ours, OURS, 2.2), (panel.others, OTHERS, 1.2)):
        for (name, line), colour, marker in zip(lines.items(), colours, MARKERS, strict=False):
            xs = sorted(line)
            axis.plot(xs, [line[x] for x in xs], color=colour, marker=marker, markersize=4, linewidth=width, label=name)
    for (name, level), colour, style in zip(panel.levels.items(), (PLAIN, FREE, FREE), ("--", ":", "-."), strict=False):
        axis.axhline(level, color=colour, linestyle=style, linewidth=1.2, label=name)
    axis.set_xscale("log")
    if panel.logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
    # labels of neighbours that are close would overlap
    labelled = [one for one, after in zip(epsilons, [*epsilons[1:], math.inf], strict=True) if after > 1.2 * one]
    axis.set_xticks(labelled, [f"{one:,.5g}" for one in labelled])
    axis.minorticks_off()
    axis.set_xlabel(panel.over)
    if panel.lowest is not None:
        axis.set_ylim(bottom=panel.lowest)
    axis.set_ylabel(panel.value)
    axis.set_title(panel.title, fontsize=10)
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)


CBCL = ("CBCL faces", "Principal components: CBCL faces")
PICTURES = {
    "frontier_ratings": lambda: [ratings()],
    "frontier_rating_nmf": lambda: [small_ratings()],
    "frontier_pcr": lambda: [regression()],
    "topics_by_documents": documents,
    "frontier_clicks": lambda: [clicks()],
    "frontier_nmf": lambda: [parts()],
    "frontier_svd": lambda: [components(*CBCL), components("online news", "Principal components: online news")],
    "frontier_neural": lambda: [networks()],
    "frontier_private_coupled": lambda: [coupled_alone(), coupled()],
    "frontier_tables": lambda: [tables()],
    "frontier_peers": lambda: [ratings(), clicks(), components(*CBCL)],
}


def picture(name: str) -> Figure:
    """Return one of the pictures."""
    panels = PICTURES[name]()
    width = 5.0 if len(panels) <= 3 else 3.2
    figure = Figure(figsize=(width * len(panels) + 0.9, 3.7), layout="constrained")
    for axis, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axis, panel)
    return figure


def main(folder: Path) -> None:
    """Write all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tacit", "font.family": "sans-serif"}):
        for name in PICTURES:
            picture(name).savefig(folder / f"{name}.svg", metadata={"Date": None})
            print(folder / f"{name}.svg")
    matplotlib.use("Agg")
    drawn = runpy.run_path(str(DOCS.parent / "examples" / "plot_private_parts.py"))
    drawn["figure"].savefig(folder / "parts.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "pictures")

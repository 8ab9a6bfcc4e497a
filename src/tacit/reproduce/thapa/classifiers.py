"""Chapter 5, and Figure 6.2: correlation-aware perturbation (CAP) and the classifiers that are trained on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError
from tacit.measure import classifier_scores
from tacit.perturb import AdditiveNoise, CorrelationAware
from tacit.perturb.methods.correlation_aware import label_correlations
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide
from tacit.reproduce.thapa.data import CLASSIFIED, TITLES, Matrix, split

ETA = 0.1
"""Columns with a larger correlation with the label are predictors. The thesis does not state its eta."""
DISTORTIONS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
"""Values of VD on the horizontal axis. Set by hand over the range of the printed figures."""
TEST = 0.3
"""Fraction of test rows. The thesis does not state it."""
LABELLED = "CAP, test rows by their labels (thesis)"
HONEST = "CAP, test rows without labels"
NOISE = "random perturbation"


def _scores(
    run: ItemRun, name: str, classifier: str, form: str, seed: int, targets: Sequence[float]
) -> dict[str, NDArray[np.float64]]:
    """Return misclassification rate and AUC, by curve, with one row per distortion; NaN where a distortion is not reached."""
    train, y, test, truth = split(run, name, TEST, seed)

    def score(rows: Matrix, shown: Matrix) -> tuple[float, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return classifier_scores(
                rows, y, shown, truth, classifier, kernel_rows=run.pick(3000, 300), random_state=seed
            )

    scores: dict[str, list[tuple[float, float]]] = {LABELLED: [], HONEST: [], NOISE: [], "original": []}
    original = score(train, test)
    for target in targets:
        noise = AdditiveNoise(target_distortion=target, random_state=seed).fit(train)
        scores[NOISE].append(score(noise.transform(train), noise.transform(test)))
        scores["original"].append(original)
        try:
            ours = CorrelationAware(eta=ETA, form=form, target_distortion=target, random_state=seed)
            released = ours.fit_transform(train, y)
            scores[HONEST].append(score(released, ours.transform(test)))
            scores[LABELLED].append(score(released, ours.transform_with_labels(test, truth)))
        except InvalidInputError:
            scores[HONEST].append((np.nan, np.nan))
            scores[LABELLED].append((np.nan, np.nan))
    return {label: np.array(values) for label, values in scores.items()}


def _against_distortion(run: ItemRun, classifier: str, caption: str, *, form: str = "class") -> ItemOutcome:
    targets = run.pick(DISTORTIONS, (0.4,))
    figures, rows = [], []
    for name in run.each(run.pick(CLASSIFIED, CLASSIFIED[-1:])):
        scores = [_scores(run, name, classifier, form, seed, targets) for seed in run.seeds]
        for place, quantity in enumerate(("misclassification rate", "AUC")):
            curves = []
            for label in scores[0]:
                values = np.array([one[label][:, place] for one in scores])
                reached = ~np.isnan(values).any(axis=0)
                if reached.any():
                    curves.append(Curve.of(label, np.array(targets)[reached].tolist(), values[:, reached]))
            figures.append(Figure(f"{caption}: {TITLES[name]}, {quantity}", "VD", quantity, tuple(curves)))
        at = min(targets, key=lambda target: abs(target - 0.4))
        for label in scores[0]:
            values = np.array([one[label][targets.index(at), 1] for one in scores])
            rows.append(
                Row((TITLES[name], label), None, tuple(values), None, "The thesis draws curves without numbers.", 3)
            )
    table = SideBySide(f"{caption}: AUC at VD {at:g}", ("data", "method"), tuple(rows))
    return ItemOutcome((table,), tuple(figures))


@item(
    paper="thapa",
    name="figure-5.9",
    title="Logistic regression: misclassification and AUC against distortion",
    page=79,
    needs=CLASSIFIED,
    minutes=2,
    code=("tacit.perturb.CorrelationAware", "tacit.measure.classifier_scores"),
)
def figure_5_9(run: ItemRun) -> ItemOutcome:
    """Figure 5.9, page 79."""
    return _against_distortion(run, "logistic", "Figure 5.9")


@item(
    paper="thapa",
    name="figure-5.16",
    title="L1 logistic regression: misclassification and AUC against distortion",
    page=82,
    needs=CLASSIFIED,
    minutes=2,
    code=("tacit.perturb.CorrelationAware", "tacit.measure.classifier_scores"),
)
def figure_5_16(run: ItemRun) -> ItemOutcome:
    """Figure 5.16, page 82."""
    return _against_distortion(run, "logistic-l1", "Figure 5.16")


@item(
    paper="thapa",
    name="figure-5.17",
    title="Naive Bayes: AUC against distortion",
    page=84,
    needs=CLASSIFIED,
    minutes=1,
    code=("tacit.perturb.CorrelationAware", "tacit.measure.classifier_scores"),
)
def figure_5_17(run: ItemRun) -> ItemOutcome:
    """Figure 5.17, page 84."""
    return _against_distortion(run, "naive-bayes", "Figure 5.17")


@item(
    paper="thapa",
    name="figure-6.2",
    title="Decision trees: CAP by the leaves of a tree, against distortion",
    page=88,
    needs=CLASSIFIED,
    minutes=3,
    code=("tacit.perturb.CorrelationAware", "tacit.measure.classifier_scores"),
)
def figure_6_2(run: ItemRun) -> ItemOutcome:
    """Figure 6.2, page 88: means of leaves instead of means of classes."""
    return _against_distortion(run, "tree", "Figure 6.2", form="leaf")


@item(
    paper="thapa",
    name="figures-5.14-5.15",
    title="Coefficients of the regression, and correlation of the predictors, against distortion",
    page=80,
    needs=CLASSIFIED,
    minutes=1,
    code=("tacit.perturb.CorrelationAware",),
    covers=("figure-5.10", "figure-5.11", "figure-5.12", "figure-5.14", "figure-5.15"),
)
def figures_5_14_and_5_15(run: ItemRun) -> ItemOutcome:
    """Figures 5.10 to 5.15, pages 80 and 81: min, max and sum of |beta_i|; sum of the correlations of columns above eta."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    targets = run.pick(DISTORTIONS, (0.4,))
    figures = []
    for name in run.each(run.pick(CLASSIFIED, CLASSIFIED[-1:])):
        train, y, _, _ = split(run, name, TEST, run.seed)
        predictors = label_correlations(train, y.astype(np.intp), ordered=False) > ETA
        lines: dict[str, list[float]] = {key: [] for key in ("least", "largest", "sum", "CAP", "random perturbation")}
        for target in targets:
            released = CorrelationAware(eta=ETA, target_distortion=target, random_state=run.seed).fit_transform(
                train, y
            )
            noisy = AdditiveNoise(target_distortion=target, random_state=run.seed).fit_transform(train)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = LogisticRegression(C=np.inf, max_iter=500).fit(StandardScaler().fit_transform(released), y)
            size = np.abs(fitted.coef_)
            for key, value in (("least", size.min()), ("largest", size.max()), ("sum", size.sum())):
                lines[key].append(float(value))
            for key, rows in (("CAP", released), ("random perturbation", noisy)):
                among = np.abs(np.corrcoef(rows[:, predictors], rowvar=False))
                lines[key].append(float(np.triu(among, 1).sum()))
        of = {key: Curve(key, tuple(targets), tuple(values)) for key, values in lines.items()}
        sizes = (of["least"], of["largest"], of["sum"])
        figures.append(
            Figure(
                f"Figure 5.14, {TITLES[name]}: coefficients",
                "VD",
                "|beta_i| of standardised columns",
                sizes,
                log_y=True,
            )
        )
        both = (of["CAP"], of["random perturbation"])
        figures.append(Figure(f"Figure 5.15, {TITLES[name]}", "VD", "sum of correlations between predictors", both))
    return ItemOutcome(figures=tuple(figures))


@item(
    paper="thapa",
    name="figures-5.3-5.8",
    title="How CAP raises a correlation: the example, and two normal classes",
    page=72,
    minutes=0.1,
    code=("tacit.perturb.CorrelationAware",),
    covers=("figure-5.3", "figure-5.4", "figure-5.5", "figure-5.6", "figure-5.8"),
)
def figures_5_3_to_5_8(run: ItemRun) -> ItemOutcome:
    """Figures 5.3 to 5.8, pages 72 to 74."""
    y = np.array([0, 0, 1, 1])
    examples = (
        ("5.3 and 5.5: original", (45, 35, 55, 64), 0.8988),
        ("5.4: away from the mean", (50, 42, 65, 74), 0.9402),
        ("5.6: towards the mean", (42, 39, 58, 61), 0.9878),
    )
    rows = tuple(
        Row(
            (label,),
            printed,
            (float(np.corrcoef(values, y)[0, 1]),),
            None,
            "The correlation of the four printed numbers.",
            4,
        )
        for label, values, printed in examples
    )
    draw = np.random.default_rng(run.seed)
    codes = np.repeat([0, 1], run.pick(2000, 100))
    column = draw.normal(np.where(codes == 0, 0.0, 3.0), 1.0)[:, None]
    released = CorrelationAware(1.0, eta=ETA, random_state=run.seed).fit_transform(column, codes)
    bins = np.linspace(-4, 7, 45)
    curves = []
    for label, values in (("original", column), ("CAP, percent 1", released)):
        for code in (0, 1):
            counts, _ = np.histogram(values[codes == code], bins)
            curves.append(
                Curve(f"{label}, class {code}", tuple(((bins[:-1] + bins[1:]) / 2).tolist()), tuple(map(float, counts)))
            )
    return ItemOutcome(
        (SideBySide("Figures 5.3 to 5.6: correlation of an attribute with its class", ("figure",), rows),),
        (Figure("Figure 5.8: two normal classes before and after CAP", "value", "rows", tuple(curves)),),
    )

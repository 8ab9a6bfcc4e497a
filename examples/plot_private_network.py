"""Handwritten digits by a private Bayesian network: what privacy costs, and how sure the network may be."""

from pathlib import Path

from sklearn.datasets import load_digits

from tacit.data.split import held_out_rows
from tacit.neural import PrivateBayesianClassifier, expected_calibration_error
from tacit.report.figures import frontier

X, y = load_digits(return_X_y=True)
test = held_out_rows(X, y, fraction=0.2)  # decided for each row by itself, so the split costs no privacy
train = ~test
settings = {"hidden": (), "delta": 1e-4, "feature_range": (0, 16), "classes": range(10), "sampling_rate": 0.2}

plain = PrivateBayesianClassifier(epsilon=float("inf"), **settings).fit(X[train], y[train])
epsilons = (0.5, 1.0, 2.0, 5.0, 10.0)
scores = []
for epsilon in epsilons:
    model = PrivateBayesianClassifier(epsilon=epsilon, **settings).fit(X[train], y[train])
    scores.append(model.score(X[test], y[test]))
    gap = expected_calibration_error(model.predict_proba(X[test]), y[test])
    print(
        f"epsilon {epsilon:g}: accuracy {scores[-1]:.3f}, calibration error {gap:.3f}, "
        f"weights dropped at a mean rate of {model.dropout_rate_['mean']:.3f}"
    )
print(model.guarantee_)

figure = frontier(
    epsilons,
    scores,
    reference=plain.score(X[test], y[test]),
    value_name=f"accuracy on {test.sum()} other digits",
    reference_name="without privacy",
)
figure.savefig(Path("private_network.png"), bbox_inches="tight", dpi=110)

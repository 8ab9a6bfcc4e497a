"""One table, all ways of releasing it: what an analyst keeps against what an attacker recovers."""

from pathlib import Path

import numpy as np
import polars as pl

from tacit.data import NumberColumn
from tacit.perturb import compare_releases
from tacit.perturb.compare import frontier
from tacit.report.frontiers import release_frontier
from tacit.synthetic import PrivateTable

# patients: age, pressure, weight and dose go together; who falls ill depends on the first two
generator = np.random.default_rng(0)
n = 2000
age = generator.normal(50, 15, n).clip(18, 95)
pressure = 90 + 0.6 * age + generator.normal(0, 8, n)
weight = 60 + 0.2 * pressure + generator.normal(0, 6, n)
dose = 0.5 * weight + generator.normal(0, 3, n)
ill = (0.08 * (age - 50) + 0.1 * (pressure - 120) + generator.logistic(size=n) > 0).astype(int)
table = np.column_stack([age, pressure, weight, dose])
bounds = {
    "age": (0, 120),
    "pressure": (50, 250),
    "weight": (30, 200),
    "dose": (0, 100),
}  # public: known without the data
schema = {name: NumberColumn(low, high) for name, (low, high) in bounds.items()}

found = compare_releases(
    table,
    ill,
    methods=[
        "normal-noise",
        "truncated-svd",
        "compressed-nmf",
        "correlation-aware",
        "neighbourhood-aware",
        "private-table",
    ],
    distortions=[0.05, 0.1, 0.15],
    epsilons=[0.5, 1, 3],
    schema=schema,
    names=list(schema),
)
lines: dict[str, list[tuple[float, float, str]]] = {}
for release in found:
    print(f"{release.method}, {release.setting}: ", end="")
    if release.utility is None or release.leak is None:
        print(release.note)
        continue
    print(f"AUC {release.utility:.3f}, an attacker gains {release.leak:.3f}")
    lines.setdefault(release.method, []).append((release.leak, release.utility, release.setting.split()[-1]))

model = PrivateTable(epsilon=1.0, schema=schema).fit(pl.DataFrame(table, schema=list(schema)))
print(model.guarantee_)
figure = release_frontier(
    lines,
    best=[(release.leak or 0, release.utility or 0) for release in frontier(found)],
    utility_name="AUC",
    leak_name="largest gain of six attacks",
    reference=None,
    highlight="private-table",
)
figure.savefig(Path("table_release.png"), bbox_inches="tight", dpi=110)

"""
Does one document show in the totals?
=====================================

Exact sums without noise may reveal a single document. KSDP measures it: runs with the document against runs without.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit.channel import Outcome, Sum
from tacit.measure.ksdp import ksdp, observing


def sums(rows):
    """Release the column sums."""
    total = yield Sum(rows=rows.sum(axis=0))
    return Outcome(public={"sums": total.rows})


generator = np.random.default_rng(0)
X = np.abs(generator.standard_normal((3000, 5)))
X[0] *= 12  # a document that is much longer than the others
sizes = (10, 100, 1000)
values = []
for size in sizes:
    found = ksdp(observing(sums), X, [0, 1, 2], size=size, samples=80, jobs=1)
    values.append([found.pi[document] for document in range(3)] if not callable(found.pi) else list(found.pi()))
    print(f"{size} rows: p-values {', '.join(f'{float(value):.3f}' for value in values[-1])}; flagged {found.flagged}")

figure, axis = plt.subplots(figsize=(6.4, 3.4))
for document, name in enumerate(("a long document", "an ordinary one", "another one")):
    axis.loglog(sizes, [max(float(row[document]), 1e-12) for row in values], marker="o", label=name)
axis.axhline(0.05, color="0.5", linewidth=0.8)
axis.set(xlabel="rows of the holder", ylabel="p-value (small: it shows)")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()

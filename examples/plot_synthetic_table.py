"""
A synthetic table with a guarantee
==================================

Real and synthetic rows side by side: one column, two columns together, and a condition.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from tacit.data import CategoryColumn, IntegerColumn, NumberColumn
from tacit.synthetic import PrivateTable

generator = np.random.default_rng(0)
n = 8000
age = generator.gamma(9, 5, n).clip(18, 99).astype(int)
sex = generator.choice(["f", "m"], n)
dose = (0.4 * age + np.where(sex == "f", 0, 8) + generator.normal(0, 4, n)).clip(0, 80)
patients = pl.DataFrame({"age": age, "sex": sex, "dose": dose})

schema = {"age": IntegerColumn(18, 99), "sex": CategoryColumn(("f", "m")), "dose": NumberColumn(0, 80)}
model = PrivateTable(epsilon=1.0, schema=schema).fit(patients)
synthetic = model.sample()
print(synthetic.head(3))
print(model.guarantee_)

figure, (first, second, third) = plt.subplots(1, 3, figsize=(11, 3.4))
first.hist([patients["age"], synthetic["age"]], bins=20, label=["real", "synthetic"])
first.set(xlabel="age", ylabel="rows")
first.legend(frameon=False)
for axis, rows, name in ((second, patients, "real"), (third, synthetic, "synthetic, epsilon 1")):
    for value, colour in (("f", "C0"), ("m", "C1")):
        some = rows.filter(pl.col("sex") == value)
        axis.plot(some["age"], some["dose"], ".", markersize=1.5, alpha=0.3, color=colour, label=value)
    axis.set(xlabel="age", ylabel="dose", title=name)
figure.tight_layout()
plt.show()

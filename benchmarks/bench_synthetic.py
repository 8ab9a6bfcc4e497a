"""Synthetic tables with a guarantee, ours beside MST and AIM (McKenna et al., 2021 and 2022) of dpmm and OpenDP, delta 1e-6.

    adult     Adult, no label named and with one: pair tables, classifiers for income and for sex, women among husbands
    tables    seven tables, no label named and with one: pair tables, and classifiers against those trained on the real rows
    wide      200 columns: seconds

Pair tables are compared in fixed bins, by the mean total variation over all pairs. The peers get these bins for nothing; ours
get the schema only, and, in one row of `tables`, these bins too. Seconds are those of one core. Classifiers are trained on
synthetic rows and tested on real ones that were not in the fit. The peers run with their own settings where TACIT_DPMM_PYTHON
names an interpreter that has dpmm, and TACIT_OPENDP_PYTHON one that has "opendp[mbi]"; otherwise they are left out. A line says
so, and also where a peer took too long.
"""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from harness import Part, main
from real_data import data_folder
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from tacit.data import CategoryColumn, IntegerColumn, NumberColumn, TableSchema
from tacit.synthetic import PrivateTable

DELTA = 1e-6
MOST_DECIMALS = 4
MOST_SECONDS = 2400
"""A fit of a peer that takes more seconds of one core is stopped, and a line says so."""
PEER_ROUNDS = "own"
"""Steps of a peer's inference: its own number, or fewer, given as text; see `peer_dpmm.py` and `peer_opendp.py`."""
PEERS = {
    "mst": ("TACIT_DPMM_PYTHON", "peer_dpmm.py", "mst"),
    "aim": ("TACIT_DPMM_PYTHON", "peer_dpmm.py", "aim"),
    "opendp mst": ("TACIT_OPENDP_PYTHON", "peer_opendp.py", "mst"),
    "opendp aim": ("TACIT_OPENDP_PYTHON", "peer_opendp.py", "aim"),
}
"""The variable that names the interpreter of each peer, the script that it runs, and its method there."""
ADULT_EDGES = {
    "age": np.r_[17:91:4, 91.0],
    "education_num": np.arange(1, 18) - 0.5,
    "capital_gain": np.r_[-0.5, 0.5, 1e3:9e3:1e3, 1e4, 1.5e4, 2e4, 5e4, 1e5 + 1],
    "capital_loss": np.r_[-0.5, 0.5, 500, 1000, 1400, 1600, 1800, 1900, 2000, 2200, 2500, 3000, 5001],
    "hours_per_week": np.r_[0.5:100:5, 100.0],
}
TABLES = ("adult", "magic04", "winequality", "spambase", "yeast", "credit_default", "diabetes130")


@dataclass(frozen=True)
class Split:
    """A table, its public schema, its fixed bins, and the columns that classifiers predict."""

    train: pl.DataFrame
    test: pl.DataFrame
    schema: TableSchema
    edges: dict[str, np.ndarray]
    labels: tuple[str, ...]

    def codes(self, frame: pl.DataFrame) -> np.ndarray:
        """Return the fixed bins of every cell."""
        found = []
        for name, spec in self.schema.columns.items():
            if name in self.edges:
                inner = self.edges[name][1:-1]
                found.append(np.searchsorted(inner, frame[name].to_numpy().astype(float), side="right"))
            else:
                found.append(spec.cells(frame[name].to_numpy(), name))
        return np.column_stack(found)

    @property
    def sizes(self) -> list[int]:
        """Number of fixed bins of each column."""
        return [
            len(self.edges[name]) - 1 if name in self.edges else spec.n_cells
            for name, spec in self.schema.columns.items()
        ]


def read(name: str) -> Split:
    """Return a data set; its schema stands for public knowledge: categories, digits, and the range, rounded outwards."""
    folder = data_folder()
    if name == "adult":
        frame = pl.read_parquet(folder / "tables" / "adult.parquet").drop("fnlwgt")
        text = [column for column in frame.columns if column not in ADULT_EDGES and column != "is_test"]
        frame = frame.with_columns(pl.col(text).cast(pl.String))
        columns: dict[str, Any] = {
            column: CategoryColumn(tuple(frame[column].unique().sort().to_list())) for column in text
        }
        bounds = {"age": (17, 90), "education_num": (1, 16), "capital_gain": (0, 100_000), "capital_loss": (0, 5000)}
        columns |= {key: IntegerColumn(*pair) for key, pair in {**bounds, "hours_per_week": (1, 99)}.items()}
        train, test = (frame.filter(pl.col("is_test") == part).drop("is_test") for part in (False, True))
        return Split(train, test, TableSchema(columns), ADULT_EDGES, ("income", "sex"))
    if name in ("credit_default", "diabetes130"):
        frame = pl.read_parquet(folder / "tables" / f"{name}.parquet")
        if name == "credit_default":
            frame, label = frame.drop("ID"), "default_next_month"
        else:  # one row of each patient, columns with at most 30 values or with numbers
            frame = frame.unique("patient_nbr", keep="first", maintain_order=True).drop("patient_nbr", "encounter_id")
            frame = frame.with_columns(readmitted=(pl.col("readmitted") != "NO").cast(pl.Int64))
            frame, label = frame.head(30_000), "readmitted"
            kept = [c for c in frame.columns if frame[c].n_unique() > 1]  # constant among these rows: nothing to learn
            frame = frame.select(c for c in kept if frame[c].n_unique() <= 30 or frame[c].dtype.is_numeric())
    else:
        frame, label = pl.read_csv(folder / "uci" / f"{name}.csv.gz"), "y"
        if name == "winequality":
            frame, label = frame.with_columns(y=(pl.col("quality") >= 6).cast(pl.Int64)).drop("quality"), "y"
        if name == "yeast":
            frame = frame.with_columns(y=(pl.col("y") == "CYT").cast(pl.Int64))
    columns, edges = {}, {}
    for column in frame.columns:
        values = frame[column]
        if column == label or column.endswith("_id") or not values.dtype.is_numeric() or values.n_unique() <= 10:
            columns[column] = CategoryColumn(tuple(values.unique().sort().to_list()))
            continue
        low, high = _outwards(values.to_numpy().astype(float))
        whole = bool((values == values.cast(pl.Int64)).all())
        decimals = _decimals(values.to_numpy().astype(float))
        columns[column] = IntegerColumn(int(low), int(high)) if whole else NumberColumn(low, high, decimals)
        inner = np.unique(np.quantile(values.to_numpy().astype(float), np.linspace(0, 1, 21)))
        edges[column] = np.r_[low - 1, np.nextafter(inner[:-1], np.inf), high + 1]
    kept_out = np.random.default_rng(0).random(len(frame)) < 0.3
    return Split(frame.filter(~kept_out), frame.filter(kept_out), TableSchema(columns), edges, (label,))


def _decimals(values: np.ndarray) -> int | None:
    """Return how many digits after the point the values are written with; None if there are more than MOST_DECIMALS."""
    return next((places for places in range(MOST_DECIMALS + 1) if (np.round(values, places) == values).all()), None)


def _outwards(values: np.ndarray) -> tuple[float, float]:
    """Return the range, rounded outwards to a tenth of the power of ten of its width."""
    step = 10.0 ** np.floor(np.log10(np.ptp(values))) / 10
    low, high = np.floor(values.min() / step) * step, np.ceil(values.max() / step) * step
    return round(float(low), 9), round(float(high), 9)  # 3 * 0.1 is 0.3


def two_way(one: np.ndarray, other: np.ndarray, sizes: Sequence[int]) -> float:
    """Return the mean total variation of the tables of all pairs of columns."""
    found = []
    for i, j in itertools.combinations(range(len(sizes)), 2):
        tables = [
            np.bincount(t[:, i] * sizes[j] + t[:, j], minlength=sizes[i] * sizes[j]) / len(t) for t in (one, other)
        ]
        found.append(0.5 * np.abs(tables[0] - tables[1]).sum())
    return float(np.mean(found))


def aucs(split: Split, train: np.ndarray, test: np.ndarray, label: str, kinds: Sequence[str]) -> list[float]:
    """Return the AUC of classifiers of a label from the fixed bins of the other columns."""
    place = list(split.schema.columns).index(label)
    others = [column for column in range(train.shape[1]) if column != place]
    names = [list(split.schema.columns)[column] for column in others]
    nominal = [index for index, name in enumerate(names) if name not in split.edges and split.sizes[others[index]] > 2]
    found = []
    for kind in kinds:
        X, Z, y = train[:, others], test[:, others], train[:, place]
        if len(np.unique(y)) < 2:
            found.append(0.5)
            continue
        if kind == "boosting":
            model: Any = HistGradientBoostingClassifier(random_state=0, categorical_features=nominal)
        else:
            if nominal:
                encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(X[:, nominal])
                rest = [index for index in range(len(others)) if index not in nominal]
                X, Z = (np.column_stack([t[:, rest], encoder.transform(t[:, nominal])]) for t in (X, Z))
            scale = StandardScaler().fit(X)
            X, Z = scale.transform(X), scale.transform(Z)
            model = (
                LogisticRegression(max_iter=300)
                if kind == "logistic"
                else DecisionTreeClassifier(min_samples_leaf=20, max_depth=8, random_state=0)
            )
        model.fit(X, y)
        found.append(float(roc_auc_score(test[:, place] == model.classes_[-1], model.predict_proba(Z)[:, -1])))
    return found


def ours(split: Split, epsilon: float, seed: int, label: str | None = None) -> tuple[np.ndarray, pl.DataFrame, float]:
    """Return the fixed bins of synthetic rows, the rows, and the seconds of fit and draw."""
    start = time.process_time()
    model = PrivateTable(epsilon=epsilon, delta=DELTA, schema=split.schema, label=label).fit(split.train)
    drawn = model.sample(len(split.train), random_state=seed)
    seconds = time.process_time() - start
    return split.codes(drawn), drawn, seconds


def ours_in_bins(split: Split, epsilon: float, seed: int) -> tuple[np.ndarray, float]:
    """Return synthetic rows of the table of fixed bins, which is what the peers get, and the seconds of one core."""
    codes = split.codes(split.train)
    schema = {
        name: IntegerColumn(0, size - 1) if name in split.edges else CategoryColumn(tuple(range(size)))
        for name, size in zip(split.schema.columns, map(int, split.sizes), strict=True)
    }
    frame = pl.DataFrame(dict(zip(schema, codes.T, strict=True)))
    start = time.process_time()
    model = PrivateTable(epsilon=epsilon, delta=DELTA, schema=schema).fit(frame)
    drawn = model.sample(len(frame), random_state=seed)
    return drawn.to_numpy().astype(int), time.process_time() - start


def peer(
    method: str, split: Split, epsilon: float, seed: int, rounds: str = PEER_ROUNDS
) -> tuple[np.ndarray, float] | None:
    """Return the fixed bins of a peer's synthetic rows, and its seconds; None, with a line, where there are none."""
    variable, name, its_method = PEERS[method]
    python = os.environ.get(variable)
    if not python:
        print(f"   {method}: left out; {variable} names no interpreter for {name}")
        return None
    codes = split.codes(split.train)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
        header = ",".join(f"{size}_{place}" for place, size in enumerate(split.sizes))
        np.savetxt(source, codes, delimiter=",", fmt="%d", header=header, comments="")
        script = [python, str(Path(__file__).with_name(name)), its_method]
        command = [*script, str(source), str(target), str(epsilon), str(DELTA), str(seed), rounds]
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_limit_seconds)
        last = (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode == -signal.SIGXCPU:
            where = f"; at the end: {last[:150]}" if last else ""
            print(f"   {method}, steps: {rounds}: did not end within {MOST_SECONDS} s of one core{where}", flush=True)
            return None
        if done.returncode:
            print(f"   {method}, steps: {rounds}: failed: {last[:150] or 'no message'}", flush=True)
            return None
        return np.loadtxt(target, delimiter=",", skiprows=1).astype(int), float(done.stdout.split()[-1])


def _limit_seconds() -> None:
    """Stop this process when it has used MOST_SECONDS of one core."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 60))


def warm(split: Split) -> None:
    """Compile the loops, which later runs find on disk, before anything is timed."""
    PrivateTable(epsilon=1.0, schema=split.schema).fit(split.train.head(100)).sample(10)


def adult(
    epsilons: Sequence[float] = (1.0, 3.0),
    draws: int = 3,
    peers: Sequence[str] = tuple(PEERS),
    labels: Sequence[str | None] = (None, "income"),
) -> None:
    split = read("adult")
    warm(split)
    train, test = split.codes(split.train), split.codes(split.test)
    real = [aucs(split, train, test, label, ["boosting"])[0] for label in split.labels]
    print(f"real rows: AUC income {real[0]:.3f}, sex {real[1]:.3f}")
    names = list(split.schema.columns)
    roles, sexes = (split.schema.columns[name].categories for name in ("relationship", "sex"))
    husband, woman = (
        next(i for i, text in enumerate(values) if word in text)
        for values, word in ((roles, "Husband"), (sexes, "Female"))
    )
    for epsilon in epsilons:
        runs: dict[str, list[Any]] = {"ours": [], "ours, income named": [], **{name: [] for name in peers}}
        for seed in range(draws):
            for label in labels:
                codes, _, seconds = ours(split, epsilon, seed, label)
                runs["ours" if label is None else "ours, income named"].append((codes, seconds))
            for name in peers:
                found = peer(name, split, epsilon, seed)
                if found is not None:
                    runs[name].append(found)
        for name, results in runs.items():
            if not results:
                continue
            rows = []
            for codes, seconds in results:
                husbands = codes[codes[:, names.index("relationship")] == husband]
                rows.append(
                    [
                        two_way(train, codes, split.sizes),
                        *(aucs(split, codes, test, label, ["boosting"])[0] for label in split.labels),
                        float(np.mean(husbands[:, names.index("sex")] == woman)),
                        seconds,
                    ]
                )
            tvd, income, sex, women, seconds = np.mean(rows, axis=0)
            print(
                f"epsilon {epsilon:g} {name:<20} 2-way TVD {tvd:.4f}  AUC income {income:.3f} sex {sex:.3f}  "
                f"women among husbands {women:.2%}  {seconds:.1f} s",
                flush=True,
            )


def tables(
    names: Sequence[str] = TABLES,
    epsilons: Sequence[float] = (1.0, 3.0),
    draws: int = 1,
    peers: Sequence[str] = tuple(PEERS),
) -> None:
    kinds = ("boosting", "logistic", "tree")
    for name in names:
        split = read(name)
        warm(split)
        train, test = split.codes(split.train), split.codes(split.test)
        real = np.mean([aucs(split, train, test, label, kinds) for label in split.labels], axis=0)
        shown = " ".join(f"{value:.3f}" for value in real)
        print(f"{name}: {len(train)} rows, {train.shape[1]} columns; AUC of real rows by {', '.join(kinds)}: {shown}")
        for epsilon in epsilons:
            for method in ("ours", "ours, label named", "ours, in the peers' bins", *peers):
                rows = []
                for seed in range(draws):
                    if method in ("ours", "ours, label named"):
                        codes, _, seconds = ours(split, epsilon, seed, None if method == "ours" else split.labels[0])
                    elif method.startswith("ours"):
                        codes, seconds = ours_in_bins(split, epsilon, seed)
                    else:
                        found = peer(method, split, epsilon, seed)
                        if found is None:
                            break
                        codes, seconds = found
                    scores = np.mean([aucs(split, codes, test, label, kinds) for label in split.labels], axis=0)
                    rows.append([two_way(train, codes, split.sizes), *scores, seconds])
                if rows:
                    tvd, *scores, seconds = np.mean(rows, axis=0)
                    shown = " ".join(f"{value:.3f}" for value in scores)
                    lost = np.mean(real) - np.mean(scores)
                    print(
                        f"   epsilon {epsilon:g} {method:<24} 2-way TVD {tvd:.4f}  AUC {shown} (mean {lost:.3f} below real)  "
                        f"{seconds:.1f} s",
                        flush=True,
                    )


def wide(n_columns: int = 200, n_rows: int = 20_000) -> None:
    generator = np.random.default_rng(0)
    hidden = generator.normal(size=(n_rows, 8)) @ generator.normal(size=(8, n_columns))
    table = hidden + 2 * generator.normal(size=hidden.shape)
    PrivateTable(epsilon=3.0, schema=NumberColumn(-15, 15)).fit(table[:100, :5]).sample(10)  # compiles the loops
    clock, start = time.perf_counter(), time.process_time()
    model = PrivateTable(epsilon=3.0, delta=DELTA, schema=NumberColumn(-15, 15)).fit(table)
    middle = time.process_time()
    drawn = model.sample(n_rows)
    end, clock = time.process_time(), time.perf_counter() - clock
    upper = np.triu_indices(n_columns, 1)
    before, after = (np.corrcoef(t.T)[upper] for t in (table, drawn))
    print(
        f"{n_columns} columns, {n_rows} rows: fit {middle - start:.0f} s, draw {end - middle:.0f} s of one core, {clock:.0f} s "
        f"on the clock; the correlations of all pairs, before and after: {np.corrcoef(before, after)[0, 1]:.3f}"
    )


PARTS = {
    "adult": Part(adult, quick={"epsilons": (1.0,), "draws": 1, "peers": ()}),
    "tables": Part(tables, quick={"names": ("yeast",), "epsilons": (3.0,), "peers": ()}),
    "wide": Part(wide, quick={"n_columns": 20, "n_rows": 1000}),
}

if __name__ == "__main__":
    main(__doc__, PARTS)

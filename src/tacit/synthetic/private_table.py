"""A synthetic table with a formal guarantee, in the family of releases that have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit.data.frames import as_frame
from tacit.data.schema import CategoryColumn, ColumnSpec, TableSchema, column_from_dict
from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.estimators.base import public, released
from tacit.estimators.private import PrivateFit
from tacit.privacy.noise.entropy import insecure_generator, secure_generator
from tacit.synthetic.copula import copula_program, copula_split, sample_codes
from tacit.validation import check_count, check_seed


class PrivateTable(PrivateFit):
    r"""Synthetic rows from a Gaussian copula, with differential privacy for every row.

    Two noisy sums: histograms of every column (within each class, if there is a label), and the products of normal scores, from
    which the correlation of the columns follows. Rows are then drawn from the model: no synthetic row belongs to a real one.

    Parameters
    ----------
    epsilon, delta : float
        Privacy loss and failure probability of the whole fit.
    schema : TableSchema, mapping from column to ColumnSpec, or one ColumnSpec for all columns
        What is public about every column: numbers between bounds (`NumberColumn`), integers (`IntegerColumn`) or categories
        (`CategoryColumn`). Columns of an array are named by their places, "0", "1" and so on. Nothing of it is read off the
        data; state it without looking at them.
    label : str or int, optional
        A column with classes: everything is counted within each of them. It must be a `CategoryColumn`.
    bins : int, default=20
        Bins of a column of numbers; integers and categories have fewer where they have fewer values.
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
    max_units : int, default=2**20
        Public upper bound on the number of rows.
    ledger, dataset, insecure_seed
        As in `PrivateMoments`.

    Attributes
    ----------
    count_ : float
        Noisy number of rows.
    class_fractions_ : ndarray of shape (n_classes,)
        Noisy share of each class; one class if there is no label.
    marginals_ : ndarray of shape (n_classes, n_bins)
        Noisy probabilities of the bins of all columns, side by side.
    correlation_ : ndarray of shape (n_columns, n_columns)
        Noisy correlation of the normal scores, the label left out.
    columns_ : list of dict
        Name, number of bins and schema of each column, in the table's order; `label_place_` is the label's place, -1 if there
        is none.
    guarantee_ : Guarantee
    n_features_in_ : int

    Privacy
    -------
    Unit: one row. What leaves: a noisy vector of class counts and histograms, then one of products of scores. Why the bound
    holds: a row is 1 in one class and 1 in one bin of each of the m columns, of norm :math:`\sqrt m`; its scores follow from the
    released histograms and its own values, clipped to length L, so that its products for pairs of columns have norm at most
    :math:`L^2 \sqrt{(1 - 1/m) / 2}`. Two rows are at most :math:`\sqrt{2m}` apart in the histograms and :math:`L^2` in the
    products, which is what replace-one adjacency is charged for. Each cell is read by itself, as the schema says; the kinds,
    bounds, categories and names of the columns are the schema's and must be public. A cell that does not fit the schema is
    refused before anything is charged; an observer sees that refusal. Synthetic rows are post-processing: as many as you like,
    at no further cost.

    References
    ----------
    Li, Xiong & Jiang, "Differentially private synthesization of multi-dimensional data using copula functions", EDBT 2014, for
    the idea; histograms within classes and scores by bins are our own choice.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.data import NumberColumn
    >>> from tacit.synthetic import PrivateTable
    >>> generator = np.random.default_rng(0)
    >>> first = generator.normal(size=5000)
    >>> table = np.column_stack([first, first + generator.normal(size=5000)])
    >>> model = PrivateTable(epsilon=2.0, schema=NumberColumn(-5, 5)).fit(table)
    >>> synthetic = model.sample(1000)
    >>> bool(0.6 < np.corrcoef(synthetic.T)[0, 1] < 0.8)
    True
    """

    schema: Any = public(default=None)
    label: str | int | None = public(default=None)
    bins: int = public(default=20)
    count_: float = released()
    class_fractions_: NDArray[np.float64] = released()
    marginals_: NDArray[np.float64] = released()
    correlation_: NDArray[np.float64] = released()
    columns_: list[dict[str, Any]] = released()
    label_place_: int = released()
    table_kind_: str = released()
    n_features_in_: int = released()

    def fit(self, X: Any, y: Any = None) -> PrivateTable:
        """Release the model of the rows of `X`, an array or a data frame, once."""
        table, n_rows, kind = _cells(X)
        schema = TableSchema.of(self.schema, list(table))
        schema.check_public()
        columns = schema.for_columns(list(table))
        place = self._label_place(columns)
        kept = [index for index in range(len(columns)) if index != place]
        if not kept:
            raise InvalidInputError("a column beside the label", words("none"), "There is nothing to model.")
        bins = check_count(self.bins, "bins", least=2)
        sizes = [spec.size(bins) for spec in columns.values()]
        codes = [spec.codes(table[name], size, name) for (name, spec), size in zip(columns.items(), sizes, strict=True)]
        self.columns_ = [
            {"name": name, "bins": size, **spec.to_dict()}
            for (name, spec), size in zip(columns.items(), sizes, strict=True)
        ]
        self.label_place_, self.table_kind_, self.n_features_in_ = place, kind, len(table)
        plan = self._plan(copula_split(len(kept)))
        program = copula_program(
            np.column_stack([codes[index] for index in kept]),
            codes[place] if place >= 0 else np.zeros(n_rows, dtype=np.intp),
            sizes=[sizes[index] for index in kept],
            n_classes=sizes[place] if place >= 0 else 1,
        )
        outcome = self._run(X, program, plan)
        for name, value in outcome.public.items():
            setattr(self, f"{name}_", value)
        self.guarantee_ = self.guarantee_.assuming(
            "the columns' names, kinds, bounds, categories and number of bins are public"
        )
        return self

    def sample(self, n_rows: int | None = None, *, random_state: int | None = None) -> Any:
        """Draw synthetic rows: an array, or a data frame of the kind that was fitted.

        Parameters
        ----------
        n_rows : int, optional
            As many as the noisy count says, if not given.
        random_state : int, optional
            Makes the draw repeatable; it takes nothing from the guarantee.
        """
        check_is_fitted(self, "marginals_")
        count = max(1, round(self.count_)) if n_rows is None else check_count(n_rows, "n_rows")
        generator = secure_generator() if random_state is None else insecure_generator(check_seed(random_state))
        names, sizes = [column["name"] for column in self.columns_], [column["bins"] for column in self.columns_]
        kept = [index for index in range(len(names)) if index != self.label_place_]
        starts = np.concatenate([[0], np.cumsum([sizes[index] for index in kept])])
        classes, codes, within = sample_codes(
            count, self.class_fractions_, self.marginals_, self.correlation_, starts, generator
        )
        drawn: dict[str, NDArray[Any]] = {}
        for index, column in enumerate(self.columns_):
            spec = column_from_dict({key: column[key] for key in column if key not in ("name", "bins")}, names[index])
            if index == self.label_place_:
                drawn[names[index]] = spec.values(classes, np.zeros(count), sizes[index])
            else:
                where = kept.index(index)
                drawn[names[index]] = spec.values(codes[:, where], within[:, where], sizes[index])
        if self.table_kind_ == "array":
            numeric = all(values.dtype.kind in "biuf" for values in drawn.values())
            return np.column_stack([values if numeric else values.astype(object) for values in drawn.values()])
        import narwhals as nw

        backend: Any = self.table_kind_
        return nw.from_dict(drawn, backend=backend).to_native()

    def _label_place(self, columns: Mapping[str, ColumnSpec]) -> int:
        if self.label is None:
            return -1
        name = str(self.label)
        if name not in columns:
            raise InvalidInputError("label to be a column of the schema", parameter(self.label), "Check the name.")
        if not isinstance(columns[name], CategoryColumn):
            raise InvalidInputError(
                "the label's classes",
                words(f"a column of kind {columns[name].kind}"),
                f"Declare {name} as a CategoryColumn with all its classes, from public knowledge.",
            )
        return list(columns).index(name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def _cells(X: Any) -> tuple[dict[str, NDArray[Any]], int, str]:
    """Return the columns of an array or a data frame by name, the number of rows, and what kind of table it is."""
    frame = as_frame(X)
    if frame is not None:
        columns = {str(name): frame[name].to_numpy() for name in frame.columns}
        n_rows, kind = len(frame), frame.implementation.name.lower()
    else:
        array = np.asarray(X)
        columns = {str(place): column for place, column in enumerate(array.T)} if array.ndim == 2 else {}
        n_rows, kind = len(array) if array.ndim else 0, "array"
    if not columns or not n_rows:
        raise InvalidInputError("a table with rows and columns", kind_of(X), "Give one row per record.")
    return columns, n_rows, kind

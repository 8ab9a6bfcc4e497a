"""A synthetic table with a formal guarantee, in the family of releases that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.private import PrivateFit
from tacit.perturb.copula import copula_program, copula_split, sample_codes
from tacit.perturb.public_columns import PublicColumn, RawTable, public_columns, raw_table
from tacit.privacy.entropy import insecure_generator, secure_generator
from tacit.validation import check_count, check_seed


class PrivateTable(PrivateFit, BaseEstimator):  # type: ignore[misc]
    r"""Synthetic rows from a Gaussian copula, with differential privacy for every row.

    Two noisy sums: histograms of every column (within each class, if there is a label), and the products of normal scores, from
    which the correlation of the columns follows. Rows are then drawn from the model: no synthetic row belongs to a real one.

    Parameters
    ----------
    epsilon, delta : float
        Privacy loss and failure probability of the whole fit.
    bounds : pair, sequence of pairs, or mapping from column to pair
        Public lower and upper bounds: one pair for all columns, one a column, or by name. Values beyond count as at the bound.
        Choose them without looking at the data.
    categories : mapping from column to sequence, optional
        Columns with a few values, text or numbers, and all the values that they may have.
    label : str or int, optional
        A column with classes: everything is counted within each of them. It must be in `categories`.
    bins : int, default=20
        Bins of a column of numbers.
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
    max_rows : int, default=2**20
        Public upper bound on the number of rows.
    ledger, dataset, insecure_seed
        As in `PrivateMoments`.

    Attributes
    ----------
    count_ : float
        Noisy number of rows.
    class_shares_ : ndarray of shape (n_classes,)
        Noisy share of each class; one class if there is no label.
    marginals_ : ndarray of shape (n_classes, n_bins)
        Noisy probabilities of the bins of all columns, side by side.
    correlation_ : ndarray of shape (n_columns, n_columns)
        Noisy correlation of the normal scores, the label left out.
    columns_ : list of dict
        What is public of each column, in order; `label_place_` is the label's place, -1 if there is none.
    guarantee_ : Guarantee
    n_features_in_ : int

    Privacy
    -------
    Unit: one row. What leaves: a noisy vector of class counts and histograms, then one of products of scores. Why the bound
    holds: a row is 1 in one class and 1 in one bin of each of the m columns, of norm :math:`\sqrt m`; its scores follow from the
    released histograms and its own values, clipped to length L, so that its products for pairs of columns have norm at most
    :math:`L^2 \sqrt{(1 - 1/m) / 2}`. Two rows are at most :math:`\sqrt{2m}` apart in the histograms and :math:`L^2` in the
    products, which is what replace-one adjacency is charged for. Synthetic rows are post-processing: as many as you like, at no further cost.

    References
    ----------
    Li, Xiong & Jiang, "Differentially private synthesization of multi-dimensional data using copula functions", EDBT 2014, for
    the idea; histograms within classes and scores by bins are our own choice.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import PrivateTable
    >>> generator = np.random.default_rng(0)
    >>> first = generator.normal(size=5000)
    >>> table = np.column_stack([first, first + generator.normal(size=5000)])
    >>> model = PrivateTable(epsilon=2.0, bounds=(-5, 5)).fit(table)
    >>> synthetic = model.sample(1000)
    >>> bool(0.6 < np.corrcoef(synthetic.T)[0, 1] < 0.8)
    True
    """

    _released = (
        *("count_", "class_shares_", "marginals_", "correlation_"),
        *("columns_", "label_place_", "table_kind_", "n_features_in_"),
    )

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Any = None,
        categories: Any = None,
        label: str | int | None = None,
        bins: int = 20,
        adjacency: str = "add-remove",
        max_rows: int = 2**20,
        ledger: Any = None,
        dataset: str | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.label = label
        self.bins = bins
        self.adjacency = adjacency
        self.max_rows = max_rows
        self.ledger = ledger
        self.dataset = dataset
        self.insecure_seed = insecure_seed

    def fit(self, X: Any, y: Any = None) -> PrivateTable:
        """Release the model of the rows of `X`, an array or a data frame, once."""
        table = raw_table(X)
        columns = public_columns(table.names, self.bounds, self.categories, check_count(self.bins, "bins", least=2))
        place = self._label_place(table, columns)
        kept = [index for index in range(len(columns)) if index != place]
        if not kept:
            raise InvalidInputError("a column beside the label", words("none"), "There is nothing to model.")
        codes = np.column_stack([columns[index].codes(table.columns[index]) for index in kept])
        classes = columns[place].codes(table.columns[place]) if place >= 0 else np.zeros(table.n_rows, dtype=np.intp)
        plan = self._plan(copula_split(len(kept)))
        program = copula_program(
            codes,
            classes,
            columns=[columns[index] for index in kept],
            n_classes=columns[place].bins if place >= 0 else 1,
        )
        outcome = self._run(X, program, plan)
        for name, value in outcome.public.items():
            setattr(self, f"{name}_", value)
        self.columns_ = [column.to_dict() for column in columns]
        self.label_place_, self.table_kind_, self.n_features_in_ = place, table.kind, len(columns)
        self.guarantee_ = self.guarantee_.assuming(
            "the columns' names, bounds, categories and number of bins are public"
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
        columns = [PublicColumn.from_dict(values) for values in self.columns_]
        kept = [index for index in range(len(columns)) if index != self.label_place_]
        starts = np.concatenate([[0], np.cumsum([columns[index].bins for index in kept])])
        classes, codes, within = sample_codes(
            count, self.class_shares_, self.marginals_, self.correlation_, starts, generator
        )
        drawn: list[NDArray[Any]] = []
        for index, column in enumerate(columns):
            where = kept.index(index) if index in kept else None
            bins = classes if where is None else codes[:, where]
            drawn.append(column.decoded(bins, np.zeros(count) if where is None else within[:, where]))
        if self.table_kind_ == "array":
            return np.column_stack(drawn)
        import narwhals as nw

        data = {column.name: values for column, values in zip(columns, drawn, strict=True)}
        backend: Any = self.table_kind_
        return nw.from_dict(data, backend=backend).to_native()

    def _label_place(self, table: RawTable, columns: tuple[PublicColumn, ...]) -> int:
        if self.label is None:
            return -1
        if str(self.label) not in table.names:
            raise InvalidInputError("label to be a column of the table", parameter(self.label), "Check the name.")
        place = table.names.index(str(self.label))
        if not columns[place].values:
            raise InvalidInputError(
                "the label's classes",
                words("none"),
                f"Give categories={{{self.label!r}: [...]}}, from public knowledge.",
            )
        return place

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

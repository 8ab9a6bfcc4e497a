"""A synthetic table with a formal guarantee, in the family of releases that have none."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit.channel import Plan, Split, Step
from tacit.data.files import as_frame
from tacit.data.schema import CategoryColumn, ColumnSpec, TableSchema, column_from_dict, looks_like_identifier
from tacit.errors import InvalidInputError, kind_of, listed, parameter, words
from tacit.estimators.base import public, released
from tacit.estimators.private import PrivateFit
from tacit.privacy.noise.entropy import insecure_generator, secure_generator
from tacit.synthetic.finer import Parts, parts_for
from tacit.synthetic.pairs import table_program, table_split
from tacit.synthetic.pairwise import PairwiseModel, chains_of
from tacit.synthetic.rules import Rules, comparable
from tacit.synthetic.triples import Triples
from tacit.validation import TableLike, check_count, check_seed

if TYPE_CHECKING:
    from sklearn.utils import Tags


class PrivateTable(PrivateFit):
    r"""Synthetic rows that keep how columns go together in pairs, with differential privacy for every row or every person.

    Two noisy sums: histograms of every column, and, in bins that follow these, the tables of the pairs of columns that vary
    enough to tell something (`tacit.synthetic.measured_tables`). Where it pays, a third one has coarse tables of two columns of
    numbers by the classes of the label, or of a column with two categories (`tacit.synthetic.triples`). Their noise is taken off
    (`tacit.synthetic.pairs`), and rows are drawn from the distribution of highest entropy that has these tables
    (`tacit.synthetic.pairwise`). Every column can then be predicted from the others about as well as in the private table; nobody
    has to say in advance which one will be. No synthetic row belongs to a real one.

    Parameters
    ----------
    epsilon, delta : float
        Privacy loss and failure probability of the whole fit.
    schema : TableSchema, mapping from column to ColumnSpec, or one ColumnSpec for all columns
        What is public about every column: numbers between bounds (`NumberColumn`), integers (`IntegerColumn`), dates
        (`DateColumn`) or categories (`CategoryColumn`), and constraints between columns. Columns of an array are named by their
        places, "0", "1" and so on. Nothing of it is read off the data; state it without looking at them.
    label : str or int, optional
        A column with classes that matters more than others: its tables get more of the budget. It must be a `CategoryColumn`.
        Without it, columns of two categories share what a label gets, or more if there are at least three of them.
    unit_column : str or int, optional
        A column that says whose row it is; it is not released. The guarantee is then for a person with all their rows.
    max_rows_per_unit : int, default=1
        With `unit_column`: rows of one person beyond this number are left out, and the noise grows in proportion to it.
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
    max_units : int, default=2**20
        Public upper bound on the number of rows, or of persons.
    ledger, dataset, insecure_seed
        As in `PrivateMoments`.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    count_ : float
        Noisy number of rows.
    bins_, within_ : ndarray of shape (n_cells,)
        Bin of each cell of each column, columns side by side, and the probability of a cell within its bin.
    margins_ : ndarray of shape (n_bins,)
        Probabilities of the bins of all columns, side by side.
    tables_ : ndarray of shape (n_bins, n_bins)
        Joint probabilities of bins of two different columns; zeros for pairs that were not measured.
    couplings_ : ndarray of shape (n_bins, n_bins)
        How strongly two bins attract each other in the distribution that rows are drawn from.
    hubs_ : ndarray of shape (n_hubs,)
        Places of the columns by whose classes triple tables were measured.
    coarse_ : ndarray of shape (n_bins,)
        Bin in triple tables of each bin of a column of numbers; -1 for other columns, and where there are no triple tables.
    triples_ : ndarray of shape (n_hubs, n_classes, n_coarse, n_coarse)
        Measured probabilities of a class with two coarse bins; empty where there are none.
    triples_noise_ : float
        Standard deviation of the noise in `triples_`.
    third_ : ndarray of shape (n_hubs, n_classes, n_coarse, n_coarse)
        How much more strongly two coarse bins attract each other in a class.
    chains_ : ndarray of shape (n_chains, n_columns)
        Synthetic rows, as bins, from which draws begin.
    columns_, constraints_ : list of dict
        The schema of each column, in the table's order, and of the constraints.
    guarantee_ : Guarantee
    n_features_in_ : int

    Privacy
    -------
    Unit: one row, or one person with at most k = `max_rows_per_unit` rows. What leaves: a noisy vector of histograms, then
    one of weighted tables of pairs and of single columns, then, if the schema has a hub for them, one of t triple tables, or
    of pair tables again. Which of the two, and which tables with which weights w, follows from the noisy histograms, which were
    released. Why the bound holds: a row is 1 in one cell of each of the m histograms, w in one of each of the weighted tables
    and 1 in one of each of the t triple tables, of norms :math:`\sqrt m`, :math:`\sqrt{\sum w^2}` and :math:`\sqrt t`; two rows
    are at most :math:`\sqrt 2` times as far apart; a person with k rows moves the sums by at most k times as much. The bins of
    the later sums follow from the first, which was released, and a row's bins from its own values. Which rows of a person are
    kept depends on that person's rows alone. Each cell is read by itself, as the schema says; the kinds, bounds, categories,
    constraints and names of the columns are the schema's and must be public. A cell or a row that does not fit the schema is
    refused before anything is charged; an observer sees that refusal. Couplings and synthetic rows are post-processing: as
    many as you like, at no further cost.

    References
    ----------
    McKenna, Sheldon & Miklau, "Graphical-model based estimation and inference for differential privacy", ICML 2019, for rows from
    noisy tables; Gavish & Donoho, "Optimal shrinkage of singular values", 2017, for the noise; Tieleman, "Training restricted
    Boltzmann machines using approximations to the likelihood gradient", ICML 2008, for couplings by persistent chains. All pairs
    at once, their weights, and latent classes against the noise, are our own choice.

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
    >>> bool(0.5 < np.corrcoef(synthetic.T)[0, 1] < 0.8)
    True
    """

    schema: Any = public(default=None)
    label: str | int | None = public(default=None)
    unit_column: str | int | None = public(default=None)
    max_rows_per_unit: int = public(default=1)
    count_: float = released()
    bins_: NDArray[np.intp] = released()
    within_: NDArray[np.float64] = released()
    margins_: NDArray[np.float64] = released()
    tables_: NDArray[np.float64] = released()
    hubs_: NDArray[np.intp] = released()
    coarse_: NDArray[np.int32] = released()
    triples_: NDArray[np.float64] = released()
    triples_noise_: float = released()
    couplings_: NDArray[np.float32] = released()
    third_: NDArray[np.float32] = released()
    chains_: NDArray[np.int32] = released()
    columns_: list[dict[str, Any]] = released()
    constraints_: list[dict[str, Any]] = released()
    table_kind_: str = released()
    n_features_in_: int = released()

    def fit(self, X: TableLike, y: object = None) -> PrivateTable:
        """Release the model of the rows of `X`, an array or a data frame, once."""
        table, n_rows, kind = _cells(X)
        units, n_units = self._units(table, n_rows)
        schema = TableSchema.of(self.schema, [name for name in table if name != str(self.unit_column)])
        schema.check_public()
        columns = schema.for_columns([name for name in table if name != str(self.unit_column)])
        check_modelled(columns)
        place = self._label_place(columns)
        checked = {name: comparable(spec, table[name], name) for name, spec in columns.items()}
        for constraint in schema.constraints:
            constraint.check_rows(checked)
        cells = np.column_stack([spec.cells(table[name], name) for name, spec in columns.items()])
        self.columns_ = [{"name": name, **spec.to_dict()} for name, spec in columns.items()]
        self.constraints_ = [constraint.to_dict() for constraint in schema.constraints]
        self.table_kind_, self.n_features_in_ = kind, len(table)
        named = {name for one in schema.constraints for name in (one.first, one.second)}
        whole = [place for place, (name, spec) in enumerate(columns.items()) if name in named and not spec.is_ordered]
        places = {name: place for place, name in enumerate(columns)}
        ruled = [(places[one.first], places[one.second]) for one in schema.constraints]
        program = table_program(
            cells[units],
            list(columns.values()),
            label=place,
            whole=whole,
            needed={(min(pair), max(pair)) for pair in ruled},
            rows_per_unit=check_count(self.max_rows_per_unit, "max_rows_per_unit"),
            units=n_units,
        )
        outcome = self._run(
            X, program, self._plan(table_split(len(columns), Triples.of(list(columns.values()), place)))
        )
        for name, value in outcome.public.items():
            setattr(self, f"{name}_", value)
        self._fit_couplings()
        self.guarantee_ = self.guarantee_.assuming(
            "the columns' names, kinds, bounds, categories and constraints are public",
            *(() if self.unit_column is None else ("all rows of a person are with one holder",)),
        )
        return self

    def _fit_couplings(self) -> None:
        """Turn the released tables into a distribution. The seed is fixed: everything here is a function of what was released."""
        model = self._pairwise()
        n_chains = chains_of(self.count_, len(self.columns_))
        self.chains_ = model.fit(n_chains, insecure_generator(0))
        model.fit_triples(self.chains_, self.triples_, self.triples_noise_, insecure_generator(1))
        self.couplings_, self.third_ = model.couplings, model.third

    def _pairwise(self) -> PairwiseModel:
        rules = Rules(self._specs(), self.constraints_, self.bins_, self.within_)
        sizes = self._sizes()
        numbers = np.flatnonzero(self.coarse_[np.cumsum(sizes) - 1] >= 0)
        triples = Triples(tuple(self.hubs_.tolist()), tuple(numbers.tolist()))
        model = PairwiseModel(sizes, self.margins_, self.tables_, rules.forbidden(self.tables_), self.coarse_, triples)
        if hasattr(self, "couplings_"):
            model.couplings = np.ascontiguousarray(self.couplings_)
            model.third = np.ascontiguousarray(self.third_)
        return model

    def _specs(self) -> dict[str, ColumnSpec]:
        return {
            column["name"]: column_from_dict({key: column[key] for key in column if key != "name"}, column["name"])
            for column in self.columns_
        }

    def _sizes(self) -> NDArray[np.intp]:
        starts = np.concatenate([[0], np.cumsum([spec.n_cells for spec in self._specs().values()])])
        return np.array([self.bins_[first:last].max() + 1 for first, last in itertools.pairwise(starts)])

    def sample(
        self,
        n_rows: int | None = None,
        *,
        given: Mapping[str, Any] | None = None,
        random_state: int | None = None,
    ) -> Any:
        """Draw synthetic rows: an array, or a data frame of the kind that was fitted.

        Parameters
        ----------
        n_rows : int, optional
            As many as the noisy count says, if not given.
        given : mapping from column to value, optional
            Values that all rows shall have; the other columns are drawn given these.
        random_state : int, optional
            Makes the draw repeatable; it takes nothing from the guarantee.
        """
        check_is_fitted(self, "chains_")
        count = max(1, round(self.count_)) if n_rows is None else check_count(n_rows, "n_rows")
        generator = secure_generator() if random_state is None else insecure_generator(check_seed(random_state))
        specs = self._specs()
        parts = Parts.of(self.bins_, self.within_, list(specs.values()), parts_for(self.count_, len(specs)))
        model = parts.model(self._pairwise())
        held = self._held(given or {}, specs)
        starts = np.concatenate([[0], np.cumsum([spec.n_cells for spec in specs.values()])])
        bins = [parts.of_cells[first:last] for first, last in itertools.pairwise(starts)]
        fixed = {place: int(bins[place][cell] + model.edges[place]) for place, cell in held.items()}
        codes = model.draw(parts.codes(self.chains_, generator), count, generator, fixed)
        rules, drawn = Rules(specs, self.constraints_, self.bins_, self.within_), {}
        for place, (name, spec) in enumerate(specs.items()):
            within = parts.within[starts[place] : starts[place + 1]]
            local = codes[:, place] - model.edges[place]
            if place in held:
                cells = np.full(count, held[place])
            else:
                tilt = model.tilts(codes, place) if spec.is_ordered else np.zeros(count)
                cells = cells_of(local, bins[place], within, tilt, generator, even=not held)
            drawn[name] = spec.values(cells, generator.random(count))
        asked = {name: drawn[name] for name in map(str, given or {})}
        rules.enforce(drawn, self.tables_)
        if any((drawn[name] != values).any() for name, values in asked.items()):
            raise InvalidInputError(
                "given values that the constraints allow together", words("values that they rule out"), "Change given."
            )
        return _as_table(drawn, specs, self.table_kind_)

    def _held(self, given: Mapping[str, Any], specs: Mapping[str, ColumnSpec]) -> dict[int, int]:
        """Return the cell at which each given column is held, by its place."""
        names, held = list(specs), {}
        for name, value in given.items():
            if str(name) not in names:
                raise InvalidInputError("given to name columns of the table", parameter(str(name)), "Check the name.")
            column = np.array([value], dtype=object if isinstance(value, str) or value is None else None)
            held[names.index(str(name))] = int(specs[str(name)].cells(column, str(name))[0])
        return held

    def _units(self, table: dict[str, NDArray[Any]], n_rows: int) -> tuple[NDArray[np.intp], int]:
        """Return the rows to count, at most `max_rows_per_unit` of every unit, and the number of units."""
        most = check_count(self.max_rows_per_unit, "max_rows_per_unit")
        if self.unit_column is None:
            if most > 1:
                raise InvalidInputError(
                    "unit_column, the column that says whose row it is, with max_rows_per_unit",
                    words("none"),
                    "Name the column; it is not released.",
                )
            return np.arange(n_rows), n_rows
        if str(self.unit_column) not in table:
            raise InvalidInputError(
                "unit_column to be a column of the table", parameter(self.unit_column), "Check the name."
            )
        _, owner = np.unique(table[str(self.unit_column)].astype(str), return_inverse=True)
        order = np.argsort(owner, kind="stable")
        rank = np.empty(n_rows, dtype=np.intp)
        first = np.searchsorted(owner[order], owner[order])
        rank[order] = np.arange(n_rows) - first
        # the first rows of each unit, in its own order: which ones depends on this unit alone
        return np.flatnonzero(rank < most), int(owner.max()) + 1

    def _plan(self, steps: int | Split | Iterable[Step], choices: Iterable[float] = ()) -> Plan | None:
        plan = super()._plan(steps, choices)
        return plan if plan is None or self.unit_column is None else replace(plan, unit="user")

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

    def __sklearn_tags__(self) -> Tags:
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


def cells_of(
    local: NDArray[np.intp],
    bins: NDArray[np.intp],
    within: NDArray[np.float64],
    tilt: NDArray[np.float64],
    generator: np.random.Generator,
    *,
    even: bool = False,
) -> NDArray[np.intp]:
    r"""Return a cell for each of these bins.

    A cell is drawn by its probability within the bin. A row whose neighbouring bins differ in probability lies nearer to the
    likelier one: the uniform number u by which it is drawn gets the density :math:`\propto e^{t u}` on [0, 1], with its tilt t.
    With `even`, only the order of these numbers among the rows of a bin counts, so that the cells of all rows of a bin have the
    distribution `within`, to one row. That is for rows of the whole distribution, not for rows given some values.
    """
    steep = np.where(np.abs(tilt) < 1e-6, 1e-6, np.clip(tilt, -5.0, 5.0))
    uniform = np.log1p(generator.random(len(local)) * np.expm1(steep)) / steep
    if even:
        uniform = spread_within(local, uniform, generator)
    order = np.argsort(bins, kind="stable")
    ends = np.cumsum(within[order])  # within bin b: from b to b + 1
    places = np.searchsorted(ends, local + np.clip(uniform, 0.0, 1 - 1e-9), side="right")
    first, last = np.searchsorted(bins[order], local), np.searchsorted(bins[order], local, side="right") - 1
    return order[np.clip(places, first, last)]


def spread_within(
    local: NDArray[np.intp], uniform: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return numbers in [0, 1) in the same order within each bin as `uniform`, evenly spread over each bin's rows."""
    order = np.lexsort((uniform, local))
    ordered = local[order]
    first, last = np.searchsorted(ordered, ordered), np.searchsorted(ordered, ordered, side="right")
    even = np.empty(len(local))
    even[order] = (np.arange(len(local)) - first + generator.random(len(local))) / (last - first)
    return even


def check_modelled(columns: Mapping[str, ColumnSpec]) -> None:
    """Raise, naming columns, where the schema leaves nothing to model or names an identifier."""
    if not columns:
        raise InvalidInputError("a column to model", words("none"), "Declare at least one column of the table.")
    identifying = [
        name
        for name, spec in columns.items()
        if not isinstance(spec, CategoryColumn) and looks_like_identifier(name, np.empty(0))
    ]
    if identifying:
        raise InvalidInputError(
            "columns that are no identifiers",
            words(f"{listed(identifying)}, which are identifiers by their names"),
            "Name them in left_out of the schema; a code with a public list of values is a CategoryColumn.",
        )
    constant = [name for name, spec in columns.items() if spec.n_cells < 2]
    if constant:
        raise InvalidInputError(
            "columns that can have at least two values",
            words(f"one value only for {listed(constant)}"),
            "Name these columns in left_out, and add them to the release yourself.",
        )


def _as_table(drawn: Mapping[str, NDArray[Any]], specs: Mapping[str, ColumnSpec], kind: str) -> Any:
    """Return the drawn columns as a table of this kind; missing numbers are nulls where the kind has them."""
    if kind == "array":
        numeric = all(values.dtype.kind in "biuf" for values in drawn.values())
        return np.column_stack([values if numeric else values.astype(object) for values in drawn.values()])
    import narwhals as nw

    backend: Any = kind
    columns: dict[str, Any] = {}
    for name, values in drawn.items():
        if specs[name].has_missing and values.dtype.kind == "f" and kind == "polars":
            whole = specs[name].kind == "integer"
            cells = [None if np.isnan(value) else (int(value) if whole else value) for value in values.tolist()]
            columns[name] = nw.new_series(name, cells, nw.Int64 if whole else nw.Float64, backend=backend)
        else:
            columns[name] = values
    return nw.from_dict(columns, backend=backend).to_native()

"""The base of all methods that perturb a table: it reads, checks and scales the table, and finds the setting."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit.errors import InvalidInputError, listed, words
from tacit.estimators.base import Estimator, learned, public, withheld
from tacit.measure import value_difference
from tacit.perturb.columns import NumericColumns, Scaling, fill_missing, read_chosen
from tacit.perturb.target import Range, reach
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import insecure_generator
from tacit.validation import TableLike, check_positive, check_seed, reason_of

if TYPE_CHECKING:
    from sklearn.utils import Tags

Rows = NDArray[np.float64]


class TablePerturbation(OneToOneFeatureMixin, TransformerMixin, Estimator):  # type: ignore[misc]
    """Base of the methods: a scikit-learn transformer from a table to a perturbed table of the same form.

    A method defines the name of its setting (`_level_name`), the range of settings (`_settings`), what it learns before a
    setting is known (`_learn`), and how it changes scaled rows (`_change`; `_change_new` if rows that were not fitted are
    treated differently).
    """

    _level_name: ClassVar[str] = "level"
    _needs_level: ClassVar[bool] = True
    _noisy: ClassVar[bool] = False

    level: float | None = public(default=None)
    target_distortion: float | None = public(default=None)
    columns: Sequence[str] | Sequence[int] | None = public(default=None)
    unchanged: Sequence[str] | Sequence[int] = public(default=())
    missing: str = public(default="refuse")
    scale: str = public(default="range")
    random_state: int | None = withheld(default=None)
    level_: float = learned()
    distortion_: float = learned()
    n_imputed_: int = learned()
    _fills: Rows = learned()
    _scaling: Scaling = learned()

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Learn how to change tables like `X`; some methods use the labels `y`."""
        self._fit(X, y)
        return self

    def fit_transform(self, X: TableLike, y: object = None) -> Any:
        """Learn from `X` and return its release."""
        chosen, released = self._fit(X, y)
        return chosen.rebuilt(released)

    def transform(self, X: TableLike) -> Any:
        """Return the release of other rows, changed with the fitted setting; no labels are needed."""
        check_is_fitted(self)
        chosen = self._read(X, reset=False)
        values, _, self.n_imputed_ = fill_missing(chosen.values, self.missing, chosen.names, self._fills)
        return chosen.rebuilt(self._scaling.up(self._change_new(self._scaling.down(values))))

    def _fit(self, X: TableLike, y: object) -> tuple[NumericColumns, Rows]:
        chosen = self._read(X, reset=True)
        values, self._fills, self.n_imputed_ = fill_missing(chosen.values, self.missing, chosen.names)
        check_varied(values, chosen.names)
        self._seed = secrets.randbits(128) if self.random_state is None else check_seed(self.random_state)
        self._scaling = Scaling.of(values, self.scale)
        scaled = self._scaling.down(values)
        self._asked()
        self._learn(scaled, y)

        def released(level: float) -> Rows:
            return self._scaling.up(self._change(scaled, level))

        self.level_ = self._choose_level(values, scaled, released)
        changed = released(self.level_)
        self.distortion_ = value_difference(values, changed)
        self.guarantee_ = Guarantee.none(
            f"{type(self).__name__} changes values, and nothing is proven about what they still reveal. Measure a release with "
            "attacks before you pass it on, and keep the seed secret."
        )
        return chosen, changed

    def _choose_level(self, values: Rows, scaled: Rows, released: Callable[[float], Rows]) -> float:
        """Return the given setting, or the one that reaches the target."""
        asked = self._asked()
        if asked is not None:
            return asked
        return reach(
            check_positive(self.target_distortion, "target_distortion"),
            lambda level: value_difference(values, released(level)),
            self._settings(scaled),
            self._level_name,
        )

    def _asked(self) -> float | None:
        """Return the given setting, under either of its names; None if a target is given instead."""
        given = {self._level_name: getattr(self, self._level_name), "level": self.level}
        stated = {name: value for name, value in given.items() if value is not None}
        if self.target_distortion is not None:
            stated["target_distortion"] = self.target_distortion
        if not stated and not self._needs_level:
            return None
        if len(stated) != 1:
            raise InvalidInputError(
                f"one of {', '.join(dict.fromkeys([*given, 'target_distortion']))}",
                words(", ".join(stated) if stated else "none of them"),
                "Give exactly one of them.",
            )
        (name, value), *_ = stated.items()
        return None if name == "target_distortion" else self._check_level(value)

    def _read(self, X: TableLike, *, reset: bool) -> NumericColumns:
        chosen = read_chosen(X, self.columns, self.unchanged)
        try:
            validate_data(
                self, chosen.table if isinstance(chosen.table, np.ndarray) else X, reset=reset, skip_check_array=True
            )
        except ValueError as error:
            fix = "Give a table with the same columns in the same order."
            raise InvalidInputError("the columns of the fit", reason_of(error), fix) from None
        return chosen

    def _generator(self, rows: Rows, purpose: str = "") -> Generator:
        """Return a random stream that depends on the seed and on the rows: only the same rows get the same noise."""
        digest = hashlib.sha256(f"{self._seed} {purpose} {rows.shape} ".encode())
        digest.update(np.ascontiguousarray(rows).tobytes())
        return insecure_generator(int.from_bytes(digest.digest(), "big"))

    def _learn(self, rows: Rows, y: object) -> None:
        """Learn what does not depend on the setting."""

    def _check_level(self, value: float) -> float:
        """Return the setting, or raise an error."""
        return check_positive(value, self._level_name)

    def _settings(self, rows: Rows) -> Range:
        raise NotImplementedError

    def _change(self, rows: Rows, level: float) -> Rows:
        """Return the fitted, scaled rows changed with this setting."""
        raise NotImplementedError

    def _change_new(self, rows: Rows) -> Rows:
        """Return other scaled rows changed with the fitted setting."""
        return self._change(rows, self.level_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "refuse"
        tags.non_deterministic = self._noisy  # a row's noise depends on the other rows
        return tags


def check_varied(values: Rows, names: Sequence[str]) -> None:
    """Raise if there is only one row, or if a column, which the message names, has only one value."""
    if len(values) < 2:
        raise InvalidInputError(
            "a table of at least two rows (n_samples = 2)",
            words(f"n_samples = {len(values)}, 1 sample"),
            "Give more rows.",
        )
    constant = [name for name, width in zip(names, np.ptp(values, axis=0), strict=True) if width == 0]
    if constant:
        raise InvalidInputError(
            "columns that vary",
            words(f"the same value in every row of {listed(constant)}"),
            "Leave these columns out with columns= (--columns): no method here would change them.",
        )

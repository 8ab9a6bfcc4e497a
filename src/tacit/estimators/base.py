"""The base of every estimator: parameters declared once, fits that start from nothing, one frozen result per fit.

A class declares its parameters and its fitted attributes as fields, and says of each whether it may leave the holder::

    class PrivateMoments(PrivateFit):
        row_norm: float = public(default=1.0)      # a parameter that `save` writes
        count_: float = released()                 # a fitted attribute that `save` writes
        clipped_fraction_: float = learned()          # a fitted attribute that stays in memory

The constructor is generated from the parameters (`dataclasses.dataclass`), with the signature that scikit-learn reads.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator

from tacit.errors import InvalidInputError, PrivacyWarning, words
from tacit.estimators.engine import fit_in_partitions
from tacit.estimators.input import is_partitioned
from tacit.privacy.guarantee import Guarantee
from tacit.progress import part_named, tell

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., object])

REQUESTS = ("_sklearn_output_config", "_metadata_request")
"""What scikit-learn notes of `set_output` and `set_fit_request`: settings, which pickles of fitted models keep."""


def public(*, default: T, kw_only: bool = True, in_file: bool = True) -> T:
    """Declare a parameter that may leave the holder: it is in saved files (unless `in_file` is False) and in pickles."""
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"public": True, "in_file": in_file})


def withheld(*, default: T, kw_only: bool = True) -> T:
    """Declare a parameter that stays with the holder: a saved or pickled model does not have it."""
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"public": False})


def released(*, init: Literal[False] = False) -> Any:
    """Declare a fitted attribute that may leave the holder: it is in saved files and in pickles."""
    return dataclasses.field(init=init, repr=False, metadata={"public": True})


def learned(*, init: Literal[False] = False) -> Any:
    """Declare a fitted attribute that stays in memory: files and pickles of private models do not have it."""
    return dataclasses.field(init=init, repr=False, metadata={"public": False})


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenResult:
    """What one fit produced and may leave the holder; later changes of the estimator do not reach it.

    Attributes
    ----------
    parameters : mapping of str to object
        The public parameters, as they were when the fit began.
    values : mapping of str to object
        The released attributes; arrays are read-only copies.
    guarantee : Guarantee
    """

    parameters: Mapping[str, object]
    values: Mapping[str, object]
    guarantee: Guarantee


_with_everything: ContextVar[bool] = ContextVar("with_everything", default=False)


@contextmanager
def pickling_everything() -> Iterator[None]:
    """Within the block, pickles of private models hold everything: to move a model between processes of its own holder."""
    token = _with_everything.set(True)
    try:
        yield
    finally:
        _with_everything.reset(token)


@contextmanager
def _without_docstring_warnings() -> Iterator[None]:
    """Within the block, scikit-learn does not warn that its parser does not know a docstring's section "Privacy"."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Unknown section")
        yield


def starts_fresh(method: Method) -> Method:
    """Make a method a fit: it removes what earlier fits left, and ends with a result or with nothing.

    `fit` of data in partitions runs on a cluster of this machine's cores.
    """

    @functools.wraps(method)
    def fit(self: Estimator, *args: Any, **kwargs: Any) -> Any:
        with self._fitting():
            if method.__name__ == "fit" and args and is_partitioned(args[0]):
                return fit_in_partitions(self, *args, **kwargs)
            return method(self, *args, **kwargs)

    return fit  # type: ignore[return-value]


def _continues(method: Method) -> Method:
    """Make a method continue a fit: it keeps what there is, and ends with a new result or with the earlier one."""

    @functools.wraps(method)
    def fit(self: Estimator, *args: Any, **kwargs: Any) -> Any:
        with self._fitting(afresh=not self._goes_on()):
            return method(self, *args, **kwargs)

    return fit  # type: ignore[return-value]


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(public, withheld, released, learned))
class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators.

    Subclasses declare their fields with `public`, `withheld`, `released` and `learned`, and get their constructor from
    them. Every method whose name begins with "fit" starts from nothing: what an earlier fit left is removed when it
    begins, and what it set itself is removed if it fails. When it succeeds, it leaves a `FrozenResult`: files and pickles are
    made from that, not from attributes, which may have changed since. `partial_fit` continues.

    Pickles (and joblib files) of a fitted private model hold its `FrozenResult` only; a warning says so. `copy.copy` and
    `copy.deepcopy` stay within the process and copy everything. `sklearn.base.clone` copies the parameters, all of
    them, and nothing that was fitted. An estimator that is not fitted is pickled with all its parameters, so that it can
    be fitted, and charged to its ledger, in another process.
    """

    _released: ClassVar[tuple[str, ...]] = ()
    _withholds: ClassVar[bool] = False
    """Whether pickles hold only what may leave the holder."""

    guarantee_: Guarantee
    _result: FrozenResult
    _has_released: bool
    """Whether something was released before; no fit removes it."""
    _names_before_fit: frozenset[str]
    """While a fit runs: the attributes that were there when it began."""
    _names_of_fit: frozenset[str]
    """The attributes that the last fit left."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(init="__init__" not in vars(cls), kw_only=True, eq=False, repr=False)(cls)
        fields = dataclasses.fields(cls)
        undeclared = [field.name for field in fields if "public" not in field.metadata]
        if undeclared:
            raise TypeError(
                f"{cls.__name__} must say of {', '.join(undeclared)} whether it may leave the holder: declare parameters with "
                "public(default=...) or withheld(default=...), fitted attributes with released() or learned()."
            )
        cls._released = tuple(field.name for field in fields if not field.init and field.metadata["public"])
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and name.startswith("fit"):
                setattr(cls, name, starts_fresh(method))
            elif inspect.isfunction(method) and name == "partial_fit":
                setattr(cls, name, _continues(method))

    @contextmanager
    def _fitting(self, *, afresh: bool = True) -> Iterator[None]:
        """Within the block the estimator is being fitted; a fit within a fit of the same object belongs to the outer one."""
        if "_names_before_fit" in vars(self):
            yield
            return
        if afresh:
            self._forget()
        settings = {name: _frozen_parameter(name, value) for name, value in self._public_parameters().items()}
        self._names_before_fit = frozenset(vars(self))
        try:
            self._before_fit()
            with part_named(type(self).__name__, verbose=bool(getattr(self, "verbose", False))):
                yield
                tell("done")
            if "guarantee_" in vars(self):
                values = {name: _frozen(vars(self)[name]) for name in self._released if name in vars(self)}
                self._result = FrozenResult(settings, values, self.guarantee_)
            self._names_of_fit = frozenset(self._fitted_names())
        except BaseException:
            if afresh:
                self._forget()
            raise
        finally:
            self.__dict__.pop("_names_before_fit", None)
        self._after_fit()  # last, so that a model that was paid for is complete where warnings are errors

    def _fitted_names(self) -> set[str]:
        """Return the names of the attributes that fits left: declared ones, and whatever else a fit has set."""
        declared = {field.name for field in dataclasses.fields(self) if not field.init}
        set_now = set(vars(self)) - self._names_before_fit if "_names_before_fit" in vars(self) else set()
        noted = (
            declared
            | set_now
            | vars(self).get("_names_of_fit", set())
            | {"_result", "_names_of_fit", "_names_before_fit"}
        )
        return {name for name in vars(self) if name in noted or name.endswith("_")} - {"_has_released"}

    def _forget(self) -> None:
        """Remove what fits left: everything but the parameters, and what scikit-learn notes of settings."""
        for name in self._fitted_names():
            del self.__dict__[name]

    def _repr_html_inner(self) -> Any:
        with _without_docstring_warnings():
            return super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        with _without_docstring_warnings():
            return super()._repr_mimebundle_(**kwargs)

    def _goes_on(self) -> bool:
        """Return whether `partial_fit` continues what an earlier fit left; otherwise it starts from nothing."""
        return hasattr(self, "_result")

    def _before_fit(self) -> None:
        """Refuse settings before anything runs."""

    def _after_fit(self) -> None:
        """Warn about what a caller should know before using the model."""

    def _public_parameters(self) -> dict[str, Any]:
        """Return the parameters that may leave the holder; those that cannot be written to a file included."""
        fields = dataclasses.fields(self)
        return {field.name: getattr(self, field.name) for field in fields if field.init and field.metadata["public"]}

    def _restored(self, result: FrozenResult) -> Self:
        """Take over a result of an earlier process; the parameters are set already."""
        for name, value in result.values.items():
            setattr(self, name, copy.deepcopy(value))
        self.guarantee_, self._result, self._has_released = result.guarantee, result, True
        return self

    def __getstate__(self) -> dict[str, Any]:
        if not self._withholds or _with_everything.get():
            return dict(super().__getstate__())
        if not hasattr(self, "_result"):
            return {name: value for name, value in vars(self).items() if name not in self._fitted_names()}
        warnings.warn(
            f"The pickle of this {type(self).__name__} holds what may be released and its public parameters. The data, what "
            "stays with its holder, ledger, dataset and insecure_seed are not in it. `save` writes the same to a file.",
            PrivacyWarning,
            stacklevel=2,
        )
        return {"result": vars(self._result), **{name: vars(self)[name] for name in REQUESTS if name in vars(self)}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "result" not in state:
            super().__setstate__(state)
            return
        result = FrozenResult(**state.pop("result"))
        self.__dict__.update({**type(self)(**result.parameters).get_params(deep=False), **state})
        self._restored(result)

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(vars(self))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(vars(self), memo))
        return twin


def in_file(cls: type[Estimator]) -> frozenset[str]:
    """Return the parameters of a class that a saved file holds."""
    fields = dataclasses.fields(cls)
    return frozenset(field.name for field in fields if field.init and field.metadata.get("in_file", False))


def _frozen_parameter(name: str, value: T) -> T:
    """Return a copy of a parameter; raise if it cannot be copied, before anything is charged."""
    try:
        return _frozen(value)
    except Exception as error:  # of any type: a torch module with a tensor that is not a leaf raises RuntimeError
        raise InvalidInputError(
            f"a {name} that copy.deepcopy can copy",
            words(f"a {type(value).__name__} for which it raises {type(error).__name__}"),
            "Remove attributes that are results of computations (call .detach() on tensors) or open files; nothing was charged.",
        ) from None


def _frozen(value: T) -> T:
    """Return a copy that later changes of `value` do not reach."""
    if not isinstance(value, np.ndarray):
        return copy.deepcopy(value)
    twin = value.copy()
    twin.flags.writeable = False
    return twin

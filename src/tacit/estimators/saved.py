"""Saving and restoring models: one file of arrays and JSON, never pickle.

The file is a NumPy archive (``.npz``, opened with ``allow_pickle=False``). Its entry ``model.json`` holds

* ``format``: "tacit model", ``version``: 2, ``tacit``: the version that wrote it,
* ``class``: the estimator's name,
* ``parameters``: the parameters that its class declares `public`, as they were when the fit began,
* ``values``: the fitted attributes that its class declares `released`,
* ``guarantee``: `Guarantee.to_dict`; epsilon is computed anew from the releases when the file is read.

Parameters and values are JSON. What JSON has no form for is marked: ``{"tuple": [...]}`` (likewise set and frozenset),
``{"mapping": [[key, value], ...]}``, ``{"objects": [...]}`` for an array of texts or mixed ids, and ``{"array": name}`` for
an array that is an entry of the archive. A `TableSchema` and its columns are ``{class: {"mapping": ...}}``.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tacit.data.constraints import AtMost, Determines, Implies
from tacit.data.schema import CategoryColumn, DateColumn, IntegerColumn, NumberColumn, TableSchema
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import Estimator, FrozenResult, in_file, withheld
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.records import checked_record, is_integer, is_record, is_text

FORMAT, VERSION = "tacit model", 2
"""Name and version of the file format."""
STORED_KINDS = "biufcmMSU"
"""Kinds of arrays that NumPy writes without pickle."""

RECORDS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (NumberColumn, IntegerColumn, DateColumn, CategoryColumn, TableSchema, AtMost, Implies, Determines)
}
"""Public parameters that are records of plain values."""

HEADER = {
    **{"format": is_text, "version": is_integer, "tacit": is_text, "class": is_text},
    **{"parameters": is_record, "values": is_record, "guarantee": is_record},
}
"""Every field of a file's header, all of them required, with its type."""

Arrays = dict[str, NDArray[np.generic]]


class Earlier(Protocol):
    """Something released before a fit."""

    def joined(self, fit: Guarantee) -> Guarantee:
        """Return the guarantee of both together."""


class SavedModel(Estimator):
    """Base of estimators that can be saved.

    All of them have `verbose`: whether a fit says on standard error what it is doing (`tacit.show_progress`). It stays with
    the holder: a saved model does not have it.
    """

    verbose: bool = withheld(default=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what the last fit released to one file, with its public parameters and guarantee; see `tacit.load`.

        The file holds what the fit produced. Attributes or parameters that were set since are not in it.
        """
        # write beside and rename: a crash leaves the old file or the new one, never half of one
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        content = io.BytesIO()
        self._write(content)
        partial.write_bytes(content.getvalue())
        os.replace(partial, target)

    def _write(self, file: BinaryIO) -> None:
        """Write what `save` writes to an open file."""
        if not hasattr(self, "_result"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        arrays: Arrays = {}
        header = {
            "format": FORMAT,
            "version": VERSION,
            "tacit": version("tacit"),
            "class": type(self).__name__,
            **self._encoded(self._result.parameters, self._result.values, arrays),
            "guarantee": self._result.guarantee.to_dict(),
        }
        text = json.dumps(header, indent=1, allow_nan=True)
        np.savez_compressed(
            file, allow_pickle=False, **{"model.json": np.frombuffer(text.encode(), np.uint8)}, **arrays
        )

    def extend_guarantee(self, *assumptions: str, earlier: Earlier | None = None) -> Self:
        """State what else the fitted model rests on; its guarantee then counts and assumes more, never less.

        Parameters
        ----------
        *assumptions : str
            What else has to hold, in words.
        earlier : PaidVocabulary, optional
            What was released before the fit and is part of the model.
        """
        if not hasattr(self, "_result"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        joined = self._result.guarantee if earlier is None else earlier.joined(self._result.guarantee)
        self.guarantee_ = joined.assuming(*assumptions)
        self._result = replace(self._result, guarantee=self.guarantee_)
        return self

    def _check_storable(self) -> None:
        """Raise if `save` could not write the public parameters, or the released attributes as far as they are set."""
        values = {name: vars(self)[name] for name in self._released if name in vars(self)}
        self._encoded(self._public_parameters(), values, {})

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """What scikit-learn shows of a fitted estimator in a notebook: what a file of it may hold, and no more."""
        shown = super()._get_fitted_attr_html(doc_link)
        for name in set(shown) - {*self._released, "guarantee_", "n_features_in_", "feature_names_in_"}:
            del shown[name]
        return shown

    @classmethod
    def _encoded(
        cls, parameters: Mapping[str, object], values: Mapping[str, object], arrays: Arrays
    ) -> dict[str, object]:
        public = in_file(cls)
        return {
            "parameters": {
                name: encode(value, f"parameters.{name}", arrays)
                for name, value in parameters.items()
                if name in public
            },
            "values": {name: encode(value, name, arrays) for name, value in values.items()},
        }

    @classmethod
    def _restore(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> Self:
        """Return a fitted estimator from what `save` wrote."""
        checked_record(
            header["parameters"], f"the parameters of {cls.__name__}", dict.fromkeys(in_file(cls), _anything)
        )
        # not every fit releases every value, so that none is required here
        released = dict.fromkeys(set(header["values"]) & set(cls._released), _anything)
        checked_record(header["values"], f"the released values of {cls.__name__}", released)
        try:
            parameters, values = (
                {name: decode(value, arrays) for name, value in header[part].items()}
                for part in ("parameters", "values")
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                "parameters and values that save() wrote",
                words(f"others ({type(error).__name__})"),
                "The file is damaged or not one that tacit wrote.",
            ) from None
        result = FrozenResult(parameters, values, Guarantee.from_dict(header["guarantee"]))
        return cls(**parameters)._restored(result)


def read_model(path: str | os.PathLike[str] | BinaryIO, classes: Collection[str]) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file that `save` wrote, for a class among `classes`."""
    shown = parameter(os.fspath(path)) if isinstance(path, str | os.PathLike) else words("another file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(archive["model.json"].tobytes())
            arrays = {name: archive[name] for name in archive.files if name != "model.json"}
        stated = {key: header.get(key) for key in ("format", "version", "class")}
    except FileNotFoundError:
        raise InvalidInputError("a saved model", shown, "There is no such file.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            "a file written by save()",
            shown,
            f"It cannot be read as one ({type(error).__name__}).",
        ) from None
    if stated["format"] != FORMAT or stated["version"] != VERSION or stated["class"] not in list(classes):
        raise InvalidInputError(
            f"a {FORMAT!r} of version {VERSION} with a class among {sorted(classes)}",
            parameter(stated),
            "Read it with the version of tacit that wrote it.",
        )
    checked_record(header, "the header of a model file", HEADER)
    if set(_array_names([header["parameters"], header["values"]])) != set(arrays):
        raise InvalidInputError(
            "a model file with exactly the arrays that its header names",
            words("a file with others"),
            "The file is damaged or not one that tacit wrote.",
        )
    return header, arrays


def encode(value: Any, name: str, arrays: Arrays) -> Any:  # noqa: PLR0911  (one return per kind of value)
    """Return `value` as JSON; arrays are added to `arrays` under names that begin with `name`."""

    def items(values: Iterable[Any]) -> list[Any]:
        return [encode(one, name, arrays) for one in values]

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return items(value)
    kind = type(value).__name__
    array = np.asarray(value) if hasattr(value, "__array__") or isinstance(value, range) else None
    if isinstance(value, Mapping):
        return {"mapping": items(map(list, value.items()))}
    if isinstance(value, tuple):
        return {"tuple": items(value)}
    if isinstance(value, set | frozenset):
        return {kind: items(sorted(value, key=repr))}
    if RECORDS.get(kind) is type(value):
        return {kind: encode({field.name: getattr(value, field.name) for field in fields(value)}, name, arrays)}
    if array is not None and array.dtype.kind in STORED_KINDS:
        key = name if name not in arrays else f"{name}.{len(arrays)}"
        arrays[key] = array
        return {"array": key}
    if array is not None and array.ndim == 1:
        return {"objects": items(array.tolist())}
    raise InvalidInputError(
        f"{name} to be made of numbers and texts, so that the model can be saved",
        words(f"a value of type {kind} in it"),
        "Convert it before the fit.",
    )


def decode(value: Any, arrays: Mapping[str, NDArray[np.generic]]) -> Any:
    """Invert `encode`."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    ((mark, content),) = value.items()
    if mark == "array":
        return arrays[content]
    decoded = decode(content, arrays)
    return RECORDS[mark](**decoded) if mark in RECORDS else COLLECTIONS[mark](decoded)


def as_saved(value: object) -> object:
    """Return a parameter as a file would give it back."""
    arrays: Arrays = {}
    return decode(encode(value, "value", arrays), arrays)


def _array_names(value: object) -> Iterator[str]:
    """Return the names of the arrays in what `encode` returned."""
    if isinstance(value, dict):
        if isinstance(value.get("array"), str):
            yield value["array"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _array_names(item)


def _anything(value: object) -> bool:
    return True


def _objects(items: list[Any]) -> NDArray[np.generic]:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "mapping": dict,
    "objects": _objects,
}

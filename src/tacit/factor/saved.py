"""Saving and loading models: one file of arrays and JSON, never pickle.

The file is a NumPy archive (``.npz``, opened with ``allow_pickle=False``). Its entry ``model.json`` holds

* ``format``: "tacit model", ``version``: 1, ``tacit``: the version that wrote it,
* ``class``: the estimator's name,
* ``parameters``: its constructor's parameters that are plain values,
* ``values``: learned attributes that are plain values, ``arrays``: names of those that are arrays (one entry each),
* ``guarantee``: `Guarantee.to_dict`; epsilon is computed anew from the releases when the file is read.

A private model's file holds what its class lists in `_released`, and nothing else of what the fit learned.
"""

from __future__ import annotations

import json
import os
import zipfile
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tacit.errors import InvalidInputError, parameter, words
from tacit.privacy.guarantee import Guarantee

FORMAT, VERSION = "tacit model", 1
MODELS = {
    "CoupledFactorization": "tacit.factor.coupled.estimator",
    "LocalCountFactorization": "tacit.factor.coupled.local_counts",
    "NMF": "tacit.factor.nmf.estimator",
    "PCA": "tacit.factor.svd.pca",
    "PrincipalComponentRegression": "tacit.factor.svd.regression",
    "PrivateBayesianClassifier": "tacit.neural.classifier",
    "PrivateBayesianRegressor": "tacit.neural.regressor",
    "PrivateCoupledFactorization": "tacit.factor.coupled.private",
    "PrivateMoments": "tacit.factor.moments",
    "PrivateNMF": "tacit.factor.nmf.private",
    "PrivateRecommender": "tacit.factor.ratings.private",
    "PrivateTable": "tacit.perturb.private_table",
    "RatingNMF": "tacit.factor.ratings.non_negative",
    "Recommender": "tacit.factor.ratings.plain",
    "SVD": "tacit.factor.svd.estimator",
}
"""Where each class that can be loaded lives; nothing outside this table is ever imported because a file names it."""


class SavedModel:
    """Mixin of estimators that can be saved."""

    _released: ClassVar[tuple[str, ...]] = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; see `tacit.load`."""
        if not hasattr(self, "guarantee_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        learned = {name: getattr(self, name) for name in self._released if hasattr(self, name)}
        arrays = {name: value for name, value in learned.items() if isinstance(value, np.ndarray)}
        header = {
            "format": FORMAT,
            "version": VERSION,
            "tacit": version("tacit"),
            "class": type(self).__name__,
            "parameters": {name: value for name, value in self.get_params().items() if _is_plain(value)},
            "values": {name: value for name, value in learned.items() if name not in arrays},
            "arrays": sorted(arrays),
            "guarantee": self.guarantee_.to_dict(),
        }
        text = json.dumps(header, indent=1, allow_nan=True)
        # write beside and rename: a crash leaves the old file or the new one, never half of one
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        with partial.open("wb") as file:
            np.savez_compressed(
                file, allow_pickle=False, **{"model.json": np.frombuffer(text.encode(), np.uint8)}, **arrays
            )
        os.replace(partial, target)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Provided by scikit-learn's BaseEstimator."""
        return super().get_params(deep)  # type: ignore[misc, no-any-return]

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """What scikit-learn shows of a fitted estimator in a notebook: what a file of it may hold, and no more."""
        shown = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        for name in set(shown) - {*self._released, "guarantee_", "n_features_in_", "feature_names_in_"}:
            del shown[name]
        return shown

    @classmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Any]) -> Self:
        model = cls(**header["parameters"])
        for name, value in {**header["values"], **arrays}.items():
            if name not in cls._released:
                raise InvalidInputError(
                    f"one of {cls._released}", parameter(name), "The file is not one that tacit wrote."
                )
            setattr(model, name, value)
        model.guarantee_ = Guarantee.from_dict(header["guarantee"])  # type: ignore[attr-defined]
        return model


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that was saved by its `save` method; returns the fitted estimator, without its private data.

    Parameters
    ----------
    path : path-like
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(archive["model.json"].tobytes())
            arrays = {name: archive[name] for name in header["arrays"]}
    except FileNotFoundError:
        raise InvalidInputError("a saved model", parameter(os.fspath(path)), "There is no such file.") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            "a file written by save()",
            parameter(os.fspath(path)),
            f"It cannot be read as one ({type(error).__name__}).",
        ) from None
    if header.get("format") != FORMAT or header.get("version") != VERSION or header.get("class") not in MODELS:
        raise InvalidInputError(
            f"a {FORMAT!r} of version {VERSION} with a class among {sorted(MODELS)}",
            parameter({key: header.get(key) for key in ("format", "version", "class")}),
            "Read it with the version of tacit that wrote it.",
        )
    model_class = getattr(import_module(MODELS[header["class"]]), header["class"])
    return model_class._restore(header, arrays)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)

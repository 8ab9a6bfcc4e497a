"""No message holds a value of the data: errors, tracebacks with all causes, warnings, output, logs, JSON and reprs.

Each case gives a public function, an estimator or a command bad input in which unmistakable values are planted, and collects
everything that is said about it. To add a case, add a line: its name begins with the function, class or command that it
is about, and a test sees that none of these is left out.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import json
import logging
import os
import pkgutil
import re
import sys
import traceback
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import typer
from PIL import Image
from sklearn.base import BaseEstimator

import tacit
from tacit import AllBut, LocallyPrivateCounts, Relation, report
from tacit import measure as m
from tacit import perturb as p
from tacit.channel import Clear, Noisy, NormedSum, Outcome, Plan, Sample, Sum, run, run_together
from tacit.cli.main import app, main
from tacit.data import (
    CategoryColumn,
    IntegerColumn,
    NumberColumn,
    TableSchema,
    contaminate,
    read_matrix,
    read_pictures,
    read_terms,
    read_texts,
    term_counts,
    tfidf,
)
from tacit.data.files import read_frame
from tacit.data.split import held_out_rows
from tacit.errors import InvalidInputError, TacitError, Undisclosed, kind_of, parameter, words
from tacit.factor.coupled.held_out import hold_out
from tacit.factor.coupled.local.estimator import LocalCountFactorization
from tacit.factor.coupled.outlines import Outline, Site
from tacit.factor.coupled.private.estimator import PrivateCoupledFactorization
from tacit.factor.ratings.table import RatingTable, read_ratings
from tacit.measure import attacks
from tacit.measure.ksdp import ksdp
from tacit.parties import Identity, Job, Party
from tacit.parties import link as party_link
from tacit.parties import local as local_parties
from tacit.parties.models import PartyData, check_party_data, read_party_data
from tacit.privacy import Ledger, fingerprint
from tacit.privacy.vocabulary import private_vocabulary
from tacit.report import tables
from tacit.report.measure import measure_synthetic_rows, measure_tables
from tacit.report.result import Shown

SOURCE = Path(tacit.__file__).parent

# the planted values: a number, an id, a label, a word, a date, and a number of rows, index or count
NUMBER, ID, LABEL, WORD, DATE, COUNT = 731.25, "Zebedee-4711", "Wolpertinger", "quixotry", "1987-06-05", 4711
PLANTED = re.compile(r"731|7\.31|4711|zebedee|wolpertinger|quixotry|1987|\b06-05\b", re.IGNORECASE)


class Said:
    """Everything that was printed, logged or raised while a piece of code ran."""

    def __init__(self, texts: list[str], error: BaseException | None) -> None:
        # numbers that have nothing to do with the data: lines of a traceback, addresses, and where pytest puts files
        self.text = re.sub(r'(?<=", )line \d+|\b0x[0-9a-f]+|\bpytest-\d+', "", "\n".join(texts))
        self.error = error

    @property
    def leaks(self) -> list[str]:
        return [line for line in self.text.splitlines() if PLANTED.search(line)]


@pytest.fixture
def listen(capfd, caplog):
    """Return a function that runs code and collects everything that the code and its callees print, log, warn or raise."""

    def heard(code) -> Said:
        capfd.readouterr()
        caplog.clear()
        caplog.set_level(logging.INFO)  # compilers log numbers of all kinds for debugging
        caught: BaseException | None = None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                code()
            except BaseException as error:
                caught = error
        texts = [str(warning.message) for warning in warned]
        if caught is not None and not isinstance(caught, SystemExit):  # of which a shell shows nothing
            texts += [str(caught), repr(caught), "".join(traceback.format_exception(caught))]
        if isinstance(caught, TacitError):
            texts += [caught.expected, str(caught.got), caught.fix, repr(caught.__reduce__())]
        return Said([*texts, *capfd.readouterr(), caplog.text], caught)

    return heard


# --- planted leaks: the test must see each of them


def _raise(*, message="", cause="", context=""):
    try:
        raise KeyError(cause or context)
    except KeyError as error:
        if cause:
            raise ValueError(message) from error
        if context:
            raise ValueError(message)  # noqa: B904
    raise InvalidInputError("something", words(message), "Do it.")


LEAKS = {
    "message": lambda: _raise(message=f"got {ID}"),
    "cause": lambda: _raise(cause=ID),
    "context": lambda: _raise(context=ID),
    "parameter": lambda: (_ for _ in ()).throw(InvalidInputError("a number", parameter(float(-NUMBER)), "Do it.")),
    "warning": lambda: warnings.warn(f"column of {LABEL}", stacklevel=1),
    "output": lambda: print(DATE),
    "error output": lambda: print(np.full(2, NUMBER), file=sys.stderr),
    "error output of a library": lambda: os.write(2, WORD.encode()),
    "log": lambda: logging.getLogger("some.library").info("row %d", COUNT),
    "numpy": lambda: np.asarray([[ID]], dtype=np.float64),
}


@pytest.mark.parametrize("name", LEAKS)
def test_planted_leaks_are_found(listen, name):
    assert listen(LEAKS[name]).leaks


def test_what_is_said_without_values_passes(listen):
    said = listen(lambda: _raise(message="others"))
    assert isinstance(said.error, InvalidInputError)
    assert not said.leaks


def test_a_value_that_is_not_marked_as_public_is_shown_by_its_type(listen):
    for value in (NUMBER, ID, [ID], np.full(3, NUMBER), pl.Series([ID]), pd.Series([ID], dtype="category"), COUNT):
        error = InvalidInputError("something else", value, "Do it.")  # type: ignore[arg-type]
        assert not listen(lambda error=error: (_ for _ in ()).throw(error)).leaks
        assert type(value).__name__ in str(error)
    assert "got 731.25." in str(InvalidInputError("something", parameter(NUMBER), "Do it."))
    for table in (np.full((2, 2), NUMBER), pl.DataFrame({"a": [ID]}), {"a": np.full(2, NUMBER)}, [NUMBER] * 1000):
        assert not PLANTED.search(parameter(table)), "a table given as a parameter by mistake"
    assert kind_of(np.full((2, 3), NUMBER)) == "a value of type ndarray with 2 dimensions of float64"
    assert "64" not in kind_of(np.array(["x" * 64]))  # the length of the longest text


# --- tables of numbers

GOOD = np.abs(np.random.default_rng(0).standard_normal((40, 3)))
TARGET = np.arange(40) % 2


def _torch(name):
    def make(**settings):
        pytest.importorskip("torch")
        import tacit.neural

        usual = {"epochs": 1, "hidden": (), "feature_range": (0, 1)}
        usual |= {"target_range": (0, 1)} if name.endswith("Regressor") else {"classes": (0, 1)}
        return getattr(tacit.neural, name)(**{**usual, **settings})

    return make


def _plain_classifier():
    return _torch("PrivateBayesianClassifier")(epsilon=np.inf, classes=None)


TABLE_MODELS = {
    "NMF": lambda: tacit.NMF(2),
    "SVD": lambda: tacit.SVD(2),
    "PCA": lambda: tacit.PCA(2),
    "PrincipalComponentRegression": lambda: tacit.PrincipalComponentRegression(2),
    "PrivateMoments": tacit.PrivateMoments,
    "PrivateNMF": lambda: tacit.PrivateNMF(2),
    "PrivateSVD": lambda: tacit.PrivateSVD(2),
    "PrivatePCA": lambda: tacit.PrivatePCA(2, feature_range=(0, 1)),
    "PrivatePCR": lambda: tacit.PrivatePCR(2, feature_range=(0, 1)),
    "PrivateTable": lambda: tacit.PrivateTable(schema=NumberColumn(0, 1)),
    "PrivateBayesianClassifier": _torch("PrivateBayesianClassifier"),
    "PrivateBayesianRegressor": _torch("PrivateBayesianRegressor"),
    "AdditiveNoise": lambda: p.AdditiveNoise(0.1, random_state=0),
    "CompressedNMF": lambda: p.CompressedNMF(level=0.5, n_clusters=2),
    "ConstrainedNMF": lambda: p.ConstrainedNMF(level=0.5, n_clusters=2),
    "CorrelationAware": lambda: p.CorrelationAware(0.5),
    "HideMembership": lambda: p.HideMembership({0: "anywhere else"}, n_clusters=2),
    "NMFRelease": lambda: p.NMFRelease(1),
    "NeighbourhoodAware": lambda: p.NeighbourhoodAware(0.5),
    "RotationRelease": lambda: p.RotationRelease(0.5),
    "TruncatedSVDRelease": lambda: p.TruncatedSVDRelease(1),
}

TEXTS = np.array([[ID, LABEL, DATE]] * 40)
BAD_TABLES = {
    "text": TEXTS,
    "text in a list": TEXTS.tolist(),
    "objects": np.array([[ID, 1.0, NUMBER]] * 40, dtype=object),
    "one dimension": np.full(40, NUMBER),
    "a number": np.float64(NUMBER),
    "three dimensions": np.full((2, 2, COUNT), NUMBER),
    "rows of different lengths": [[NUMBER, 1.0], [NUMBER]],
    "NaN": np.where(np.eye(40, 3) > 0, np.nan, NUMBER),
    "infinity": np.where(np.eye(40, 3) > 0, np.inf, NUMBER),
    "complex": np.full((40, 3), NUMBER + 1j),
    "no columns": np.empty((COUNT, 0)),
    "no rows": np.empty((0, 3)),
    "pandas with text": pd.DataFrame({"a": [ID] * 40, "b": NUMBER, "c": DATE}),
    "pandas with categories": pd.DataFrame({"a": pd.Categorical([LABEL] * 40), "b": NUMBER}),
    "polars with text": pl.DataFrame({"a": [ID] * 40, "b": [NUMBER] * 40}),
    "missing values": pl.DataFrame({"a": [None, *[NUMBER] * 39], "b": [NUMBER] * 39 + [1.0]}),
    "a dictionary": {ID: NUMBER},
    "a text": WORD,
    "sparse with NaN": sp.csr_array(np.where(np.eye(40, 3) > 0, np.nan, NUMBER)),
}


@pytest.mark.slow
@pytest.mark.parametrize("table", BAD_TABLES)
@pytest.mark.parametrize("model", TABLE_MODELS)
def test_bad_tables(listen, model, table):
    estimator = TABLE_MODELS[model]()
    said = listen(lambda: estimator.fit(BAD_TABLES[table], TARGET))
    assert said.error is not None, "this is no refusal"
    assert not said.leaks


@pytest.mark.parametrize("table", ["text", "objects", "one dimension", "NaN", "complex", "polars with text"])
@pytest.mark.parametrize("model", ["NMF", "SVD", "PCA", "PrivateNMF", "AdditiveNoise", "NMFRelease"])
def test_bad_tables_after_a_fit(listen, model, table):
    estimator = TABLE_MODELS[model]().fit(GOOD, TARGET)
    said = listen(lambda: estimator.transform(BAD_TABLES[table]))
    assert said.error is not None
    assert not said.leaks


NEGATIVE = np.full((40, 3), -NUMBER)
MANY = np.tile(GOOD, (118, 1))[:COUNT]
LABELS = np.array([LABEL, "other"] * 20)


def _private_table(name, column, **settings):
    return tacit.PrivateTable(schema=TableSchema({name: column}), **settings)


TABLES = {
    "NMF: negative entries": lambda _: tacit.NMF(2).fit(NEGATIVE),
    "NMF: zeros": lambda _: tacit.NMF(2).fit(np.zeros((COUNT, 3))),
    "NMF: other columns": lambda _: tacit.NMF(2).fit(GOOD).transform(np.full((COUNT, 2), NUMBER)),
    "NMF: a start with text": lambda _: tacit.NMF(1, init=np.full((1, 2), NUMBER)).fit(GOOD),
    "NMF: sparse and negative": lambda _: tacit.NMF(2).fit(sp.csr_array(NEGATIVE)),
    "PrivateNMF: negative entries": lambda _: tacit.PrivateNMF(2).fit(NEGATIVE),
    "PrivateNMF: more rows than max_units": lambda _: tacit.PrivateNMF(2, max_units=100).fit(MANY),
    "PrivateNMF: too many components": lambda _: tacit.PrivateNMF(9).fit(MANY),
    "PrivateMoments: more rows than max_units": lambda _: tacit.PrivateMoments(max_units=100).fit(MANY),
    "SVD: too many components": lambda _: tacit.SVD(9).fit(MANY),
    "PrincipalComponentRegression: text targets": lambda _: TABLE_MODELS["PrincipalComponentRegression"]().fit(
        GOOD, LABELS
    ),
    "PrincipalComponentRegression: two targets": lambda _: TABLE_MODELS["PrincipalComponentRegression"]().fit(
        MANY, np.full((COUNT, 2), NUMBER)
    ),
    "PrincipalComponentRegression: too few targets": lambda _: TABLE_MODELS["PrincipalComponentRegression"]().fit(
        MANY, TARGET
    ),
    "PrincipalComponentRegression: NaN": lambda _: TABLE_MODELS["PrincipalComponentRegression"]().fit(
        GOOD, np.where(TARGET, np.nan, NUMBER)
    ),
    "choose_rank: text": lambda _: tacit.choose_rank(TEXTS, [1, 2]),
    "choose_rank: negative entries": lambda _: tacit.choose_rank(NEGATIVE, [1, 2], epsilon=1.0),
    "PrivateTable: an unknown category": lambda _: _private_table("a", CategoryColumn(("x", "y"))).fit(
        pl.DataFrame({"a": [LABEL] * 40})
    ),
    "PrivateTable: text as numbers": lambda _: _private_table("a", NumberColumn(0, 1)).fit(
        pl.DataFrame({"a": [ID, DATE]})
    ),
    "PrivateTable: fractions as integers": lambda _: _private_table("a", IntegerColumn(0, 1)).fit(
        pl.DataFrame({"a": [NUMBER, 1.0]})
    ),
    "PrivateTable: numbers as text": lambda _: _private_table("a", CategoryColumn(("x", "y"))).fit(
        pl.DataFrame({"a": [NUMBER]})
    ),
    "PrivateTable: more rows than max_units": lambda _: _private_table("a", NumberColumn(0, 1), max_units=100).fit(
        pl.DataFrame({"a": MANY[:, 0]})
    ),
    "CorrelationAware: an unknown class": lambda _: p.CorrelationAware(0.5, classes=["a", "b"]).fit(GOOD, LABELS),
    "CorrelationAware: one class": lambda _: p.CorrelationAware(0.5).fit(GOOD, [LABEL] * 40),
    "CorrelationAware: too few labels": lambda _: p.CorrelationAware(0.5).fit(MANY, LABELS),
    "NMFRelease: negative entries": lambda _: p.NMFRelease(1, scale="none").fit(GOOD * -NUMBER),
    "HideMembership: an unknown row": lambda _: p.HideMembership({99: 1}, n_clusters=2).fit(GOOD * NUMBER),
    "AdditiveNoise: a constant column": lambda _: p.AdditiveNoise(0.1).fit(np.full((40, 3), NUMBER)),
    "AdditiveNoise: other columns": lambda _: p.AdditiveNoise(0.1).fit(GOOD).transform(np.full((COUNT, 2), NUMBER)),
    "named_release: text": lambda _: p.named_release("nmf", level=1).fit(TEXTS),
    "compare_releases: text": lambda _: p.compare_releases(TEXTS),
    "compare_releases: few rows": lambda _: p.compare_releases(np.full((5, 2), NUMBER)),
    "compare_releases: one class": lambda _: p.compare_releases(MANY, [LABEL] * COUNT),
}

NETWORKS = {
    "PrivateBayesianClassifier: an unknown class": lambda _: _torch("PrivateBayesianClassifier")(
        classes=["a", "b"]
    ).fit(GOOD, LABELS),
    "PrivateBayesianClassifier: numbers that are no classes": lambda _: _torch("PrivateBayesianClassifier")().fit(
        GOOD, GOOD[:, 0] + NUMBER
    ),
    "PrivateBayesianClassifier: NaN": lambda _: _torch("PrivateBayesianClassifier")().fit(
        GOOD, np.where(TARGET, np.nan, NUMBER)
    ),
    "PrivateBayesianClassifier: no classes": lambda _: _torch("PrivateBayesianClassifier")(classes=None).fit(
        GOOD, LABELS
    ),
    "PrivateBayesianClassifier, plain: one class": lambda _: _plain_classifier().fit(GOOD, [LABEL] * 40),
    "PrivateBayesianClassifier, plain: numbers": lambda _: _plain_classifier().fit(GOOD, GOOD[:, 0] + NUMBER),
    "PrivateBayesianClassifier, plain: NaN": lambda _: _plain_classifier().fit(GOOD, np.where(TARGET, np.nan, NUMBER)),
    "PrivateBayesianClassifier: too few labels": lambda _: _torch("PrivateBayesianClassifier")().fit(MANY, LABELS),
    "PrivateBayesianClassifier: two labels": lambda _: _torch("PrivateBayesianClassifier")().fit(
        MANY, np.full((COUNT, 2), LABEL)
    ),
    "PrivateBayesianClassifier: objects": lambda _: _torch("PrivateBayesianClassifier")(classes=["a", "b"]).fit(
        GOOD, np.array([ID, None] * 20, dtype=object)
    ),
    "PrivateBayesianClassifier: images of two sizes": lambda _: _torch("PrivateBayesianClassifier")().fit(
        [np.full((4, COUNT), NUMBER), np.full((4, 5), NUMBER)], [0, 1]
    ),
    "PrivateBayesianClassifier: more rows than max_units": lambda _: _torch("PrivateBayesianClassifier")(
        max_units=100
    ).fit(MANY, np.arange(COUNT) % 2),
    "PrivateBayesianRegressor: text": lambda _: _torch("PrivateBayesianRegressor")().fit(GOOD, LABELS),
    "PrivateBayesianRegressor: NaN": lambda _: _torch("PrivateBayesianRegressor")().fit(
        GOOD, np.where(TARGET, np.nan, NUMBER)
    ),
    "PrivateBayesianRegressor: too few targets": lambda _: _torch("PrivateBayesianRegressor")().fit(MANY, TARGET),
    "expected_calibration_error: other shapes": lambda _: _torch_module().expected_calibration_error(
        np.full((COUNT, 2), 0.5), [1]
    ),
    "scattering: small images": lambda _: _torch_module().scattering(np.full((2, 4), NUMBER), (2, 2)),
}


def _torch_module():
    pytest.importorskip("torch")
    import tacit.neural

    return tacit.neural


# --- ratings

RATERS, FILMS, STARS = [ID, ID, "b", "c"], ["x", "y", "x", WORD], [1, 2, 3, 4]


def _fitted(model=tacit.Recommender, **settings):
    return model(2, **settings).fit(RATERS, FILMS, STARS)


def _private(**settings):
    return tacit.PrivateRecommender(2, epsilon=1.0, **settings)


def _implicit(**settings):
    return tacit.PrivateImplicitRecommender(epsilon=1.0, **{"catalogue": ["x", "y", WORD], **settings})


RATINGS = {
    "ImplicitRecommender: text as a weight": lambda _: tacit.ImplicitRecommender().fit(RATERS, FILMS, [WORD] * 4),
    "ImplicitRecommender: negative weights": lambda _: tacit.ImplicitRecommender().fit(RATERS, FILMS, [-NUMBER] * 4),
    "ImplicitRecommender: NaN": lambda _: tacit.ImplicitRecommender().fit(RATERS, FILMS, [np.nan, NUMBER, 1, 2]),
    "ImplicitRecommender: different lengths": lambda _: tacit.ImplicitRecommender().fit(RATERS * COUNT, FILMS),
    "ImplicitRecommender: a frame with gaps": lambda _: tacit.ImplicitRecommender().fit(
        pl.DataFrame({"user": [ID, None], "item": 1})
    ),
    "ImplicitRecommender: a dictionary": lambda _: tacit.ImplicitRecommender().fit({ID: NUMBER}),
    "ImplicitRecommender: an unknown user": lambda _: (
        tacit.ImplicitRecommender().fit(RATERS, FILMS).recommend(f"{ID}x")
    ),
    "ImplicitRecommender: an unknown item": lambda _: (
        tacit.ImplicitRecommender().fit(RATERS, FILMS).recommend_for([f"{WORD}x"])
    ),
    "PrivateImplicitRecommender: no catalogue": lambda _: _implicit(catalogue=None).fit(RATERS, FILMS),
    "PrivateImplicitRecommender: an item outside the catalogue": lambda _: _implicit(catalogue=["x"]).fit(
        RATERS, FILMS
    ),
    "PrivateImplicitRecommender: negative weights": lambda _: _implicit().fit(RATERS, FILMS, [-NUMBER] * 4),
    "PrivateImplicitRecommender: features that are text": lambda _: _implicit(features=[[WORD]] * 3).fit(RATERS, FILMS),
    "PrivateImplicitRecommender: more users than max_units": lambda _: _implicit(max_units=100, catalogue=[0, 1]).fit(
        np.arange(COUNT), np.arange(COUNT) % 2
    ),
    "Recommender: text as a rating": lambda _: tacit.Recommender(2).fit(RATERS, FILMS, [WORD] * 4),
    "Recommender: a rating out of range": lambda _: tacit.Recommender(2, rating_range=(1, 5)).fit(
        RATERS, FILMS, [NUMBER] * 4
    ),
    "Recommender: NaN": lambda _: tacit.Recommender(2).fit(RATERS, FILMS, [np.nan, NUMBER, 1, 2]),
    "Recommender: different lengths": lambda _: tacit.Recommender(2).fit(RATERS * COUNT, FILMS, STARS),
    "Recommender: an id that is a list": lambda _: tacit.Recommender(2).fit([[ID], ID, 1, 2], FILMS, STARS),
    "Recommender: a missing id": lambda _: tacit.Recommender(2).fit([None, ID, 1, 2], FILMS, STARS),
    "Recommender: ids in two dimensions": lambda _: tacit.Recommender(2).fit(np.full((COUNT, 2), ID), FILMS, STARS),
    "Recommender: a frame with other columns": lambda _: tacit.Recommender(2).fit(
        pl.DataFrame({"a": [ID], "b": [NUMBER]})
    ),
    "Recommender: a frame with gaps": lambda _: tacit.Recommender(2).fit(
        pl.DataFrame({"user": [ID, None], "item": 1, "rating": 2})
    ),
    "Recommender: a dictionary": lambda _: tacit.Recommender(2).fit({ID: NUMBER}),
    "Recommender: an unknown user": lambda _: _fitted().predict([f"{ID}x"], ["x"]),
    "Recommender: an unknown item": lambda _: _fitted().predict([ID], [f"{WORD}x"]),
    "Recommender: unknown numbers": lambda _: tacit.Recommender(1).fit([1, 2], [1, 2], [1, 2]).predict([COUNT], [1]),
    "Recommender: recommend for an unknown user": lambda _: _fitted().recommend(f"{ID}x"),
    "Recommender: items that are like an unknown one": lambda _: _fitted().similar_items(f"{WORD}x"),
    "Recommender: own ratings out of range": lambda _: _fitted().recommend_for([WORD], [NUMBER]),
    "Recommender: own ratings beyond those fitted": lambda _: (
        tacit.Recommender(1).fit(RATERS, FILMS, [1, 2, 3, NUMBER]).recommend_for(["x"], [1e6])
    ),
    "Recommender: own ratings of unknown items": lambda _: _fitted().predict_for([f"{WORD}x"], [1], ["x"]),
    "Recommender: held-out ratings that are text": lambda _: _fitted().evaluate([ID], ["x"], [WORD]),
    "RatingNMF: negative ratings": lambda _: tacit.RatingNMF(2).fit(RATERS, FILMS, [-NUMBER] * 4),
    "RatingNMF: text as a rating": lambda _: tacit.RatingNMF(2).fit(RATERS, FILMS, [LABEL] * 4),
    "PrivateRatingNMF: a rating out of range": lambda _: tacit.PrivateRatingNMF(
        2, rating_range=(1, 5), catalogue=["x", "y"]
    ).fit(RATERS, FILMS, [NUMBER] * 4),
    "PrivateRatingNMF: an item outside the catalogue": lambda _: tacit.PrivateRatingNMF(2, catalogue=["x", "y"]).fit(
        RATERS, FILMS, STARS
    ),
    "PrivateRecommender: a rating out of range": lambda _: _private().fit(RATERS, FILMS, [NUMBER] * 4),
    "PrivateRecommender: an item outside the catalogue": lambda _: _private(catalogue=["x", "y"]).fit(
        RATERS, FILMS, STARS
    ),
    "PrivateRecommender: a user without a budget": lambda _: (
        _private().set_params(epsilon={"b": 1.0}).fit(RATERS, FILMS, STARS)
    ),
    "PrivateRecommender: too few budgets": lambda _: (
        _private().set_params(epsilon=[1.0]).fit(np.arange(COUNT), np.arange(COUNT) % 2, np.ones(COUNT))
    ),
    "PrivateRecommender: more users than max_units": lambda _: _private(max_units=100).fit(
        np.arange(COUNT), np.arange(COUNT) % 2, np.ones(COUNT)
    ),
    "PrivateRecommender: the guarantee of an unknown user": lambda _: (
        _private().fit(RATERS, FILMS, STARS).user_guarantee(f"{ID}x")
    ),
    "PrivateRecommender: sparse and out of range": lambda _: _private().fit(sp.csr_array(np.full((3, 2), NUMBER))),
    "PrivateRecommender: objects as items cannot be saved": lambda f: (
        _private().fit(RATERS, [(WORD, b"1")] * 2 + [(ID, b"2")] * 2, STARS).save(f / "model.tacit")
    ),
}

# --- coupled relations

CP, NAMES = "ir,jr->ij", ("user", "film")
CELLS = np.full((3, 2), NUMBER)


def _relation(data, **settings):
    return Relation(data, CP, NAMES, **settings)


def _listed(coords, values, shape=(5, 3), **settings):
    return _relation((np.array(coords), np.array(values), shape), observed="stored", **settings)


def _coupled(*relations, **settings):
    return tacit.CoupledFactorization(2, max_iter=3, **settings).fit(list(relations))


RELATIONS = {
    "Relation: text": lambda _: _relation([[ID, 1.0]]),
    "Relation: objects": lambda _: _relation(np.array([[ID, DATE]], dtype=object)),
    "Relation: rows of different lengths": lambda _: _relation([[NUMBER, 1.0], [NUMBER]]),
    "Relation: negative numbers": lambda _: _relation(-CELLS, divergence="kl"),
    "Relation: infinity": lambda _: _relation(np.array([[np.inf, NUMBER]])),
    "Relation: NaN": lambda _: _relation(np.array([[np.nan, NUMBER]])),
    "Relation: zeros": lambda _: _relation(np.zeros((COUNT, 2)), divergence=2),
    "Relation: an index outside": lambda _: _listed([[0, 1], [COUNT, 0]], [1.0, NUMBER]),
    "Relation: an index that is no whole number": lambda _: _listed([[0, NUMBER]], [1.0]),
    "Relation: indices that are text": lambda _: _listed([[ID, DATE]], [1.0]),
    "Relation: a cell twice": lambda _: _listed([[COUNT, 1], [COUNT, 1]], [NUMBER, NUMBER], (COUNT + 1, 3)),
    "Relation: too few values": lambda _: _listed(np.zeros((COUNT, 2), int), [NUMBER]),
    "Relation: indices in three columns": lambda _: _listed(np.zeros((COUNT, 3), int), [NUMBER]),
    "Relation: no cells": lambda _: _relation(np.empty((COUNT, 0))),
    "Relation: a mask of another shape": lambda _: _relation(CELLS, observed=np.ones((2, 2), bool)),
    "Relation: a mask of numbers": lambda _: _relation(CELLS, observed=CELLS),
    "Relation: a mask that is a text": lambda _: _relation(CELLS, observed=ID),
    "Relation: nothing is known": lambda _: _relation(CELLS, observed=np.zeros((3, 2), bool)),
    "Relation: hidden cells outside": lambda _: _relation(CELLS).without([[COUNT, 0]]),
    "Relation: too few cells to hold out": lambda _: hold_out(_relation(np.array([[NUMBER]])), 0.1),
    "AllBut: a cell outside": lambda _: _relation(CELLS, observed=AllBut([[COUNT, 0]])),
    "AllBut: a slice outside": lambda _: _relation(CELLS, observed=AllBut(slices={0: [COUNT]})),
    "CoupledFactorization: an array in place of a relation": lambda _: _coupled(CELLS),
    "CoupledFactorization: the same relation twice": lambda _: _coupled(_relation(CELLS), _relation(CELLS)),
    "CoupledFactorization: a prediction outside": lambda _: _coupled(_relation(CELLS)).predict(
        "user-film", [[COUNT, 0]]
    ),
    "CoupledFactorization: numbers that overflow": lambda _: _coupled(_relation(CELLS * 1e306, divergence="euclid")),
    "CoupledFactorization: another number of users": lambda _: _coupled(
        _relation(CELLS), Relation(np.full((4, 2), NUMBER), CP, ("user", "place"))
    ),
    "PrivateCoupledFactorization: an array in place of a relation": lambda _: PrivateCoupledFactorization(
        2, private="user", value_range=(0, 1)
    ).fit([[CELLS]]),
    "PrivateCoupledFactorization: more users than max_units": lambda _: PrivateCoupledFactorization(
        1, private="user", value_range=(0, 1), max_units=100
    ).fit([_relation(np.ones((COUNT, 2)), divergence="euclid")]),
    "LocallyPrivateCounts: fractions": lambda _: LocallyPrivateCounts(1.0).privatise([[1.0, NUMBER]]),
    "LocallyPrivateCounts: negative counts": lambda _: LocallyPrivateCounts(1.0).privatise([[1, -COUNT]]),
    "LocallyPrivateCounts: large counts": lambda _: LocallyPrivateCounts(1.0).privatise([[1, COUNT * 10**12]]),
    "LocallyPrivateCounts: text": lambda _: LocallyPrivateCounts(1.0).privatise([[ID, WORD]]),
    "LocallyPrivateCounts: rows of different lengths": lambda _: LocallyPrivateCounts(1.0).privatise(
        [[COUNT, 1], [COUNT]]
    ),
    "LocallyPrivateCounts: a mask of another shape": lambda _: LocallyPrivateCounts(1.0).privatise(
        [[COUNT]], observed=[True]
    ),
    "LocalCountFactorization: fractions": lambda _: LocalCountFactorization(1, sweeps=2, burn_in=0, n_samples=1).fit(
        [[[NUMBER, 1.0]]]
    ),
    "LocalCountFactorization: other columns": lambda _: LocalCountFactorization(
        1, sweeps=2, burn_in=0, n_samples=1
    ).fit([np.ones((COUNT, 2), int), np.ones((COUNT, 3), int)]),
    "Outline: a line of something else": lambda _: Outline.parse(
        f"site=a; name={ID}; shape={COUNT},x; einsum=; factors="
    ),
    "Site: another number of relations": lambda _: Site("a", [], [Outline("a", "r", CP, NAMES, (3, 2), 1.0)]),
}

# --- files, texts and pictures


def _file(folder, name, *lines, encoding="utf-8"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(map(str, lines)) + "\n", encoding=encoding)
    return folder / name


def _csv(folder, *lines):
    return _file(folder, "table.csv", *lines)


def _saved(folder, array):
    np.save(folder / "array.npy", array)
    return folder / "array.npy"


def _archive(folder, **arrays):
    np.savez(folder / "archive.npz", **arrays)
    return folder / "archive.npz"


def _texts(folder, *texts, encoding="utf-8"):
    for place, text in enumerate(texts):
        _file(folder / "texts", f"{ID}-{place}.txt", text, encoding=encoding)
    return folder / "texts"


def _with_link(folder):
    found = _texts(folder, WORD)
    (found / f"{ID}.lnk").symlink_to(folder)
    return found


def _pictures(folder, *sides):
    (folder / "pictures" / LABEL).mkdir(parents=True)
    for place, side in enumerate(sides):
        file = folder / "pictures" / LABEL / f"{ID}-{place}.png"
        Image.fromarray(np.zeros((side, side), np.uint8)).save(file)
        if side == 1:
            file.write_bytes(WORD.encode())
    return folder / "pictures"


LATE = ["a,b", *["1,2"] * 200]

FILES = {
    "read_matrix: text far down": lambda f: read_matrix(_csv(f, *LATE, f"{ID},3")),
    "read_matrix: a long line": lambda f: read_matrix(_csv(f, "a,b", f"1,{NUMBER}", f"{ID},{NUMBER},{DATE}")),
    "read_matrix: dates": lambda f: read_matrix(_csv(f, "a,b", f"{DATE},2")),
    "read_matrix: a record as the first line": lambda f: read_matrix(_csv(f, f"{NUMBER},{COUNT}", "1,2")),
    "read_matrix: a record with text as the first line": lambda f: read_matrix(_csv(f, f"{ID},{NUMBER}", "b,2")),
    "read_matrix: an empty cell": lambda f: read_matrix(_csv(f, "a,b", f"{NUMBER},")),
    "read_matrix: an open quote": lambda f: read_matrix(_csv(f, "a,b", f'"{ID},2', f"{DATE},3")),
    "read_matrix: another encoding": lambda f: read_matrix(_file(f, "t.csv", "a,b", f"{ID}ü,2", encoding="utf-16")),
    "read_matrix: a Parquet file that is none": lambda f: read_matrix(_file(f, "t.parquet", f"PAR1{ID}PAR1")),
    "read_matrix: an archive that is none": lambda f: read_matrix(_file(f, "t.npz", ID)),
    "read_matrix: an array that is none": lambda f: read_matrix(_file(f, "t.npy", f"\x93NUMPY{ID}")),
    "read_matrix: a pickled array": lambda f: read_matrix(_saved(f, np.array([[ID]], dtype=object))),
    "read_matrix: an array of text": lambda f: read_matrix(_saved(f, np.array([[ID, "b"]]))),
    "read_matrix: an array of three dimensions": lambda f: read_matrix(_saved(f, np.full((COUNT, 1, 1), NUMBER))),
    "read_matrix: NaN": lambda f: read_matrix(_saved(f, np.array([[np.nan, NUMBER]]))),
    "read_matrix: no columns": lambda f: read_matrix(_saved(f, np.empty((COUNT, 0)))),
    "read_matrix: two arrays": lambda f: read_matrix(_archive(f, a=np.ones((COUNT, 1)), b=np.ones((COUNT, 1)))),
    "read_matrix: too few terms": lambda f: read_matrix(_archive(f, a=np.ones((COUNT, 2)), terms=np.array([WORD]))),
    "read_matrix: terms of the rows": lambda f: read_matrix(
        _archive(f, a=np.ones((COUNT, 2)), terms=np.arange(COUNT).astype(str))
    ),
    "read_matrix: MatrixMarket with text": lambda f: read_matrix(
        _file(f, "t.mtx", "%%MatrixMarket matrix coordinate real general", "2 2 1", f"1 1 {ID}")
    ),
    "read_matrix: MatrixMarket with an index outside": lambda f: read_matrix(
        _file(f, "t.mtx", "%%MatrixMarket matrix coordinate real general", "2 2 1", f"{COUNT} 1 {NUMBER}")
    ),
    "read_frame: a long line": lambda f: read_frame(_csv(f, "a,b", f"1,{NUMBER}", f"{ID},{NUMBER},{DATE}")),
    "read_frame: a rating as the first line": lambda f: read_frame(_csv(f, f"{ID},{WORD},1", "b,x,2")),
    "read_terms: another encoding": lambda f: read_terms(_file(f, "t.txt", f"{WORD}ü", encoding="latin-1")),
    "read_texts: another encoding": lambda f: read_texts(_texts(f, f"{WORD}ü", encoding="latin-1")),
    "read_pictures: a broken one": lambda f: read_pictures(_pictures(f, 8, 1)),
    "read_pictures: two sizes": lambda f: read_pictures(_pictures(f, 8, 9)),
    "term_counts: one text": lambda _: term_counts(f"{WORD} and {ID}"),
    "term_counts: stop words only": lambda _: term_counts(["the and of"] * COUNT),
    "term_counts: a number in place of a text": lambda _: term_counts([NUMBER, WORD]),
    "term_counts: a text as the vocabulary": lambda f: term_counts([WORD], vocabulary=_file(f, "v.txt", f"Dear {ID},")),
    "term_counts: a term twice": lambda _: term_counts(["a"], vocabulary=[WORD, WORD]),
    "tfidf: negative weights": lambda _: tfidf(term_counts(["moon star"], vocabulary=["moon"]), idf=[-NUMBER]),
    "private_vocabulary: numbers in place of texts": lambda _: private_vocabulary(
        [NUMBER, ID], epsilon=1.0, delta=1e-6
    ),
    "contaminate: text": lambda _: contaminate(TEXTS),
    "load: a table in place of a model": lambda f: tacit.load(_csv(f, "a,b", f"{ID},{NUMBER}")),
    "load: an archive of something else": lambda f: tacit.load(_archive(f, X=np.full(2, NUMBER))),
}

# --- measures and attacks

RELEASED = GOOD + 0.1
WIDE = np.vstack([GOOD[:2] * 7.3125e202, GOOD[2:]])

MEASURES = {
    **{
        f"{name}: {what}": lambda _, name=name, table=table: getattr(m, name)(table, table)
        for name in (
            "value_difference",
            "entropy_loss",
            "canonical_correlation",
            "correlation_measure",
            "neighbour_overlap",
            "measure_release",
        )
        for what, table in (
            ("text", TEXTS),
            ("NaN", BAD_TABLES["NaN"]),
            ("polars with text", BAD_TABLES["polars with text"]),
            ("missing values", BAD_TABLES["missing values"]),
            ("rows of different lengths", BAD_TABLES["rows of different lengths"]),
        )
    },
    "value_difference: another shape": lambda _: m.value_difference(GOOD * NUMBER, GOOD[:-1] * NUMBER),
    "value_difference: a text": lambda _: m.value_difference(WORD, WORD),
    "attribute_rank_change: text": lambda _: m.attribute_rank_change(TEXTS, TEXTS),
    "attribute_rank_maintenance: text": lambda _: m.attribute_rank_maintenance(TEXTS, TEXTS),
    "rank_position: text": lambda _: m.rank_position(TEXTS, TEXTS),
    "rank_maintenance: text": lambda _: m.rank_maintenance(TEXTS, TEXTS),
    "neighbour_rank_change: text": lambda _: m.neighbour_rank_change(TEXTS, TEXTS),
    "clustering_accuracy: text": lambda _: m.clustering_accuracy(TEXTS, TEXTS, 2),
    "label_agreement: another length": lambda _: m.label_agreement([LABEL], [LABEL, ID]),
    "canonical_correlation: constant columns": lambda _: m.canonical_correlation(
        np.full((40, 2), NUMBER), np.full((40, 2), NUMBER)
    ),
    "measure_release: large values": lambda _: m.measure_release(WIDE, WIDE),
    "measure_release: missing labels": lambda _: m.measure_release(GOOD, RELEASED, [None, *LABELS[1:]]),
    "classifier_panel: one class": lambda _: m.classifier_panel(GOOD, RELEASED, [LABEL] * 40),
    "classifier_panel: a class of one row": lambda _: m.classifier_panel(
        GOOD, RELEASED, [LABEL, *TARGET[1:].astype(str)]
    ),
    "classifier_panel: missing labels": lambda _: m.classifier_panel(GOOD, RELEASED, [None, *LABELS[1:]]),
    "classifier_scores: one class is tested": lambda _: m.classifier_scores(GOOD, LABELS, GOOD[:1], LABELS[:1], "tree"),
    "misclassification_rate: one class": lambda _: m.misclassification_rate(GOOD, RELEASED, [LABEL] * 40, "tree"),
    "area_under_curve: one class": lambda _: m.area_under_curve(GOOD, RELEASED, [LABEL] * 40, "tree"),
    "all_attacks: text": lambda _: m.all_attacks(TEXTS, TEXTS),
    "match_topics: text": lambda _: m.match_topics(TEXTS, TEXTS),
    "top_words: one text": lambda _: m.top_words(GOOD, WORD),
    "topic_coherence: text": lambda _: m.topic_coherence(GOOD, TEXTS),
    "reconstruction_error: text": lambda _: m.reconstruction_error(TEXTS, GOOD, GOOD),
    "non_negative_rows: text": lambda _: m.non_negative_rows(TEXTS, GOOD),
    "held_out_error: rows outside": lambda _: m.held_out_error(GOOD, GOOD[:2], rows=[COUNT]),
    "noise_estimation: text": lambda _: attacks.noise_estimation(TEXTS, TEXTS),
    "spectral_filtering: a table as the variance": lambda _: attacks.spectral_filtering(
        GOOD, RELEASED, noise_variance=GOOD * NUMBER
    ),
    "known_sample_regression: text": lambda _: attacks.known_sample_regression(TEXTS, TEXTS),
    "record_linkage: text": lambda _: attacks.record_linkage(TEXTS, TEXTS),
    "unchanged_linkage: rows of different lengths": lambda _: attacks.unchanged_linkage([[ID], [ID, LABEL]]),
    "attribute_inference: one column": lambda _: attacks.attribute_inference(GOOD[:, :1] * NUMBER, RELEASED[:, :1]),
    "membership: outsiders of another width": lambda _: attacks.membership(
        GOOD, RELEASED, outsiders=np.full((COUNT, 2), NUMBER)
    ),
}

# --- channels, parties, ledgers, KSDP


def _yields(value):
    yield value
    return Outcome({})


def _returns(value):
    yield Sum(a=np.ones(1))
    return value


def _noisy(**settings):
    return Noisy(Plan.for_budget(1.0, 1e-6), **settings)


def _identity(name="a"):
    return Identity.create(name)


def _job(model="nmf", features=("a", "b"), **settings):
    identities = [_identity("party-1"), _identity("party-2")]
    parties = [Party(one.name, f"127.0.0.1:{7000 + place}", one.certificate) for place, one in enumerate(identities)]
    return Job("study", model=model, settings=settings, features=list(features), parties=parties)


PROTOCOLS = {
    "run: a program that yields data": lambda _: run(_yields(CELLS), Clear()),
    "run: a program that returns data": lambda _: run(_returns({ID: NUMBER}), Clear()),
    "run: a sum without a bound": lambda _: run(_yields(Sum(a=CELLS)), _noisy()),
    "run: more units than max_units": lambda _: run(
        _yields(Sum(a=CELLS, bound=1.0, units=COUNT)), _noisy(max_units=10)
    ),
    "run: numbers that do not fit the grid": lambda _: run(_yields(Sum(a=CELLS * 1e300, bound=1.0, units=1)), _noisy()),
    "run: NaN": lambda _: run(_yields(Sum(a=CELLS * np.nan, bound=1.0, units=1)), _noisy()),
    "run: text": lambda _: run(_yields(Sum(a=np.array([ID]), bound=1.0, units=1)), _noisy()),
    "run: a sum of nothing": lambda _: run(_yields(Sum(a=TEXTS)), Clear()),
    "run_together: different sums": lambda _: run_together(
        [_yields(Sum(a=CELLS)), _yields(NormedSum(b=CELLS))], Clear()
    ),
    "check_party_data: NaN": lambda _: check_party_data(PartyData(np.array([[np.nan, NUMBER]])), _job(), "party-1"),
    "check_party_data: no records": lambda _: check_party_data(PartyData(np.empty((0, 2))), _job(), "party-1"),
    "read_party_data: an unknown item": lambda f: read_party_data(
        _csv(f, "user,item,rating", f"{ID},{WORD},3"), _job("private-recommender", ["x"]), "party-1"
    ),
    "read_party_data: other columns": lambda f: read_party_data(_csv(f, "x,y", f"{NUMBER},2"), _job(), "party-1"),
    "read_party_data: text": lambda f: read_party_data(_csv(f, "a,b", f"{ID},2"), _job(), "party-1"),
    "Job: a data file": lambda f: Job.read(_csv(f, "a,b", f"{ID},{NUMBER}")),
    "run_local: parts of different widths": lambda _: local_parties.run_local(
        tacit.PrivateMoments(), [GOOD * NUMBER, GOOD[:, :2]]
    ),
    "run_local: NaN": lambda _: local_parties.run_local(tacit.PrivateMoments(), [GOOD, BAD_TABLES["NaN"]]),
    "fingerprint: a list": lambda _: fingerprint([ID]),
    "fingerprint: objects": lambda _: fingerprint(np.array([ID, NUMBER], dtype=object)),
    "fingerprint: categories in a list column": lambda _: fingerprint(
        pl.DataFrame({"a": [[LABEL]]}, schema={"a": pl.List(pl.Enum([LABEL]))})
    ),
    "fingerprint: mixed objects in a frame": lambda _: fingerprint(
        pd.DataFrame({"a": pd.Series([ID, NUMBER], dtype=object)})
    ),
    "fingerprint: a masked array": lambda _: fingerprint(np.ma.masked_array([NUMBER, 1.0], [True, False])),
    "fingerprint: a folder with a link": lambda f: fingerprint(_with_link(f)),
    "ksdp: documents outside": lambda _: ksdp(tacit.SVD(1), GOOD * NUMBER, [99], size=5, samples=20, jobs=1),
    "ksdp: text as documents": lambda _: ksdp(tacit.SVD(1), GOOD, [ID], size=5, samples=20, jobs=1),
    "ksdp: text": lambda _: ksdp(tacit.SVD(1), TEXTS, [3], size=5, samples=20, jobs=1),
    "ksdp: text in other processes": lambda _: ksdp(tacit.SVD(1), TEXTS, [3], size=5, samples=20, jobs=2),
    "Ledger: no account for this data": lambda f: tacit.PrivateMoments(ledger=Ledger(f / "l.db"), dataset="nobody").fit(
        GOOD
    ),
    "Ledger: a data file": lambda f: Ledger(_csv(f, "a,b", f"{ID},{NUMBER}")),
}

# --- functions for notebooks, and methods after a fit

RATINGS_FRAME = pl.DataFrame({"user": [ID] * 40, "item": [WORD] * 40, "rating": [NUMBER] * 40})
MIXED = pl.DataFrame({"a": [ID, *["b"] * 39], "b": GOOD[:, 0] * NUMBER, "kind": LABELS})


def _regression():
    return tacit.PrincipalComponentRegression(2).fit(GOOD, TARGET)


REPORTS = {
    **{
        f"{name}: {what}": lambda _, call=call, table=table: call(table)
        for name, call in {
            "compare_nmf": lambda table: report.compare_nmf(table, 2, epsilon=1.0),
            "fit_components": lambda table: report.fit_components(table, 2),
            "measure_presence": lambda table: report.measure_presence(
                tacit.SVD(1), table, [3], size=5, samples=20, jobs=1
            ),
        }.items()
        for what, table in {
            "text": TEXTS,
            "objects": BAD_TABLES["objects"],
            "NaN": BAD_TABLES["NaN"],
            "pandas with text": BAD_TABLES["pandas with text"],
        }.items()
    },
    "compare_nmf: text without privacy": lambda _: report.compare_nmf(TEXTS, 2),
    "compare_recommenders: out of range": lambda _: report.compare_recommenders(RATINGS_FRAME, 2, epsilon=1.0),
    "compare_recommenders: text": lambda _: report.compare_recommenders(
        RATINGS_FRAME.with_columns(rating=pl.lit(LABEL)), 2
    ),
    "compare_recommenders: other columns": lambda _: report.compare_recommenders(MIXED, 2, epsilon=1.0),
    "compare_implicit: other columns": lambda _: report.compare_implicit(MIXED),
    "compare_implicit: no catalogue": lambda _: report.compare_implicit(RATINGS_FRAME, epsilon=1.0),
    "fit_regression: text": lambda _: report.fit_regression(TEXTS, TARGET, 2),
    "fit_regression: text as a target": lambda _: report.fit_regression(GOOD, [LABEL] * 40, 2),
    "ranking_scores: an item twice": lambda _: m.ranking_scores([[ID, ID]], [[WORD]]),
    "ranking_scores: different lengths": lambda _: m.ranking_scores([[ID]] * COUNT, [[WORD]]),
    "divided_histories: a fraction of 2": lambda _: m.divided_histories([[ID, WORD]], fraction=2.0),
    "compare_coupled: an array": lambda _: report.compare_coupled([CELLS], 2),
    "fit_local_counts: fractions": lambda _: report.fit_local_counts(np.full((3, 2), NUMBER), 1),
    "compare_private_coupled: an array": lambda _: report.compare_private_coupled(
        [CELLS], 2, epsilon=1.0, value_range=(0, 5)
    ),
    "compare_networks: text": lambda _: (
        _torch_module() and report.compare_networks(TEXTS, TARGET, feature_range=(0, 1))
    ),
    "compare_networks: one class": lambda _: (
        _torch_module() and report.compare_networks(GOOD, [LABEL] * 40, feature_range=(0, 1))
    ),
    "compare_networks: an unknown class": lambda _: (
        _torch_module() and report.compare_networks(GOOD, LABELS, classes=["a", "b"], feature_range=(0, 1), epsilon=1.0)
    ),
    "perturb_table: text": lambda _: tables.perturb_table(MIXED, "nmf", level=1),
    "perturb_table: missing labels": lambda _: tables.perturb_table(
        MIXED.with_columns(kind=pl.Series([None, *LABELS[1:]])), "nmf", level=1, label="kind"
    ),
    "synthesize_table: text": lambda _: tables.synthesize_table(MIXED[["a"]], {"a": NumberColumn(0, 1)}, epsilon=1.0),
    "synthesize_table: an unknown class": lambda _: tables.synthesize_table(
        MIXED[["b", "kind"]], {"b": NumberColumn(0, 1), "kind": CategoryColumn(("x", "y"))}, epsilon=1.0, label="kind"
    ),
    "compare_table: text": lambda _: tables.compare_table(MIXED[["a"]]),
    "measure_synthetic_rows: other columns": lambda _: measure_synthetic_rows(MIXED, MIXED.rename({"kind": "sort"})),
    "measure_tables: other rows": lambda _: measure_tables(MIXED, MIXED[:-1], label="kind"),
    "held_out_rows: text": lambda _: held_out_rows(TEXTS, fraction=0.1),
    "NMF: partial_fit of text": lambda _: tacit.NMF(2).partial_fit(TEXTS),
    "NMF: inverse_transform of text": lambda _: tacit.NMF(2).fit(GOOD).inverse_transform(TEXTS),
    "SVD: inverse_transform of text": lambda _: tacit.SVD(2).fit(GOOD).inverse_transform(TEXTS),
    "PrincipalComponentRegression: predict text": lambda _: (
        tacit.PrincipalComponentRegression(2).fit(GOOD, TARGET).predict(TEXTS)
    ),
    "PrincipalComponentRegression: score text": lambda _: (
        tacit.PrincipalComponentRegression(2).fit(GOOD, TARGET).score(GOOD, LABELS)
    ),
    "PrivateBayesianClassifier: predict text": lambda _: (
        _torch("PrivateBayesianClassifier")(epsilon=np.inf).fit(GOOD, TARGET).predict_proba(TEXTS)
    ),
    "LocalCountFactorization: likelihood of text": lambda _: (
        LocalCountFactorization(1, sweeps=2, burn_in=0, n_samples=1).fit([np.ones((3, 2), int)]).score(TEXTS)
    ),
}

CASES = {**TABLES, **NETWORKS, **RATINGS, **RELATIONS, **FILES, **MEASURES, **PROTOCOLS, **REPORTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_refusals(listen, tmp_path, name):
    said = listen(lambda: CASES[name](tmp_path))
    assert said.error is not None, "this is no refusal"
    assert not said.leaks


WARNINGS = {
    "Relation: zeros under Itakura-Saito": lambda: _relation(np.array([[NUMBER * 100, 0.0]]), divergence=2),
    "CoupledFactorization: an entity without a cell": lambda: _coupled(
        _relation(
            np.vstack([np.ones((COUNT, 2)), [[np.nan] * 2]]),
            observed=np.arange(COUNT + 1)[:, None].repeat(2, 1) < COUNT,
        )
    ),
    "PrivateNMF: a second fit": lambda: tacit.PrivateNMF(2).fit(GOOD * NUMBER).fit(GOOD * NUMBER),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(listen, name):
    said = listen(WARNINGS[name])
    assert said.error is None
    assert said.text.strip(), "there was no warning"
    assert not said.leaks


# --- commands: files with planted values, run as from the shell


def _toml(folder, data, *, names="", observed="stored"):
    text = f'ranks = 2\n{names}\n[[relation]]\nfile = "{data.name}"\ncolumns = ["user", "film", "times"]\n'
    return _file(
        folder, "spec.toml", f'{text}einsum = "ir,jr->ij"\nfactors = ["user", "film"]\nobserved = "{observed}"'
    )


def _relation_file(folder, *lines):
    return _toml(folder, _csv(folder, "user,film,times", *lines))


def _named(folder):
    _file(folder, "users.txt", "b")
    return _toml(folder, _csv(folder, "user,film,times", f"{ID},x,2"), names='[names]\nuser = "users.txt"')


def _private_relation(folder, *lines, settings="value_range = [1, 5]", observed="stored"):
    _file(folder, "users.txt", f"a\nb\n{ID}")
    _file(folder, "films.txt", "x\ny")
    names = f'[names]\nuser = "users.txt"\nfilm = "films.txt"\n[private]\n{settings}'
    return _toml(folder, _csv(folder, "user,film,times", *lines), names=names, observed=observed)


def _model(folder):
    _fitted().save(folder / "model.tacit")
    return folder / "model.tacit"


def _joined(folder):
    made = _job()
    identity = _identity("party-1")
    parties = [Party("party-1", "127.0.0.1:7009", identity.certificate), made.parties[1]]
    dataclasses.replace(made, parties=parties).write(folder / "job.toml")
    identity.write(folder / "identity")
    return [folder / "job.toml", "--as", "party-1", "--identity", folder / "identity", "--output", folder / "out"]


def _classes(folder):
    return _csv(folder, "x,y,kind", *[f"{place},{place % 3},{LABEL if place % 2 else 'b'}" for place in range(40)])


@pytest.fixture(autouse=True)
def _without_debugging(monkeypatch):
    """Commands set the variable for the processes that they start: put it back after each test."""
    monkeypatch.setenv("TACIT_DEBUG", "0")


def _nmf(folder):
    tacit.NMF(1).fit(np.ones((3, 2))).save(folder / "nmf.tacit")
    return folder / "nmf.tacit"


def _saved_regression(folder):
    tacit.PrincipalComponentRegression(1).fit(np.eye(3, 2), np.arange(3.0)).save(folder / "regression.tacit")
    return folder / "regression.tacit"


COMMANDS = {
    "fit nmf: text": lambda f: [_csv(f, "a,b", f"{ID},2"), "-k", 2],
    "fit nmf: negative numbers": lambda f: [_csv(f, "a,b", f"-{NUMBER},2", "1,2"), "-k", 1],
    "fit nmf: a record as the first line": lambda f: [_csv(f, f"{ID},{NUMBER}", "b,2"), "-k", 1, "--epsilon", 1],
    "fit nmf: a broken picture": lambda f: [_pictures(f, 8, 1), "-k", 1, "--epsilon", 1],
    "fit nmf: a private vocabulary": lambda f: [_texts(f, f"{WORD} moon", f"{WORD} star"), "-k", 1, "--epsilon", 1],
    "fit nmf: a text as the vocabulary": lambda f: [
        *(_texts(f, f"{WORD} moon"), "-k", 1, "--epsilon", 1, "--vocabulary", _file(f, "v.txt", f"Dear {ID}, hello")),
    ],
    "fit nmf: texts in another encoding": lambda f: [_texts(f, f"{WORD}ü", encoding="latin-1"), "-k", 1],
    "fit nmf: too many components": lambda f: [_saved(f, MANY), "-k", 9, "--epsilon", 1],
    "audit: text": lambda f: ["fit", "nmf", _csv(f, "a,b", f"{ID},2"), "-k", 2, "--epsilon", 1],
    "audit: a rating out of range": lambda f: [
        *("fit", "recommend", _csv(f, "user,item,rating", *[f"u{place},i{place % 3},{NUMBER}" for place in range(40)])),
        *("--epsilon", 1),
    ],
    "transform: text": lambda f: [_nmf(f), _csv(f, "a,b", f"{ID},2"), "-o", f / "w.csv"],
    "transform: negative numbers": lambda f: [_nmf(f), _csv(f, "a,b", f"-{NUMBER},2"), "-o", f / "w.csv"],
    "predict: text": lambda f: [_saved_regression(f), _csv(f, "a,b", f"{ID},2"), "-o", f / "p.csv"],
    "predict: other columns": lambda f: [_saved_regression(f), _csv(f, "a,b,c", f"{NUMBER},2,3"), "-o", f / "p.csv"],
    "fit svd: text": lambda f: [_csv(f, "a,b", f"{ID},2"), "-k", 2],
    "fit pcr: text": lambda f: [_csv(f, "a,b,y", f"{ID},2,3"), "--label", "y", "-k", 1],
    "fit pcr: labels beyond the range": lambda f: [
        *(_csv(f, "a,b,y", f"1,2,{NUMBER}", "2,1,3"), "--label", "y", "-k", 1, "--epsilon", 1, "--label-range", "a:b"),
    ],
    "fit svd: a Parquet file that is none": lambda f: [_file(f, "t.parquet", f"PAR1{ID}PAR1"), "-k", 1],
    "fit pca: dates": lambda f: [_csv(f, "a,b", f"{DATE},2"), "-k", 2],
    "fit recommend: a rating out of range": lambda f: [
        *(_csv(f, "user,item,rating", *[f"u{place},i{place % 3},{NUMBER}" for place in range(40)]), "--epsilon", 1),
    ],
    "fit recommend: text as a rating": lambda f: [_csv(f, "user,item,rating", *[f"{ID},{WORD},{LABEL}"] * 20)],
    "fit recommend: a rating as the first line": lambda f: [_csv(f, f"{ID},{WORD},4", "b,x,3"), "--epsilon", 1],
    "fit recommend: a first line of text": lambda f: [_csv(f, f"{ID},{WORD},{LABEL}", "b,x,3"), "--epsilon", 1],
    "fit recommend: titles of ratings": lambda f: [_csv(f, "user,item,rating", f"{ID},{WORD},3"), "--titles", "name"],
    "fit recommend: a long line": lambda f: [_csv(f, "user,item,rating", "a,b,3", f"{ID},{WORD},3,{DATE}")],
    "fit recommend: empty cells": lambda f: [_csv(f, "user,item,rating", *[f"{ID},{WORD},"] * 9, "a,b,3")],
    "fit coupled: text as a value": lambda f: [_relation_file(f, f"a,x,{ID}", "b,x,2")],
    "fit coupled: a negative value": lambda f: [_relation_file(f, f"{ID},x,-{NUMBER}", "b,x,2")],
    "fit coupled: a cell twice": lambda f: [_relation_file(f, f"{ID},x,2", f"{ID},x,{NUMBER}")],
    "fit coupled: an id without a name": lambda f: [_named(f)],
    "fit coupled: no header": lambda f: [_toml(f, _csv(f, f"{ID},{WORD},{LABEL}", "b,x,2"))],
    "fit coupled: private, without a list of entities": lambda f: [
        *(_relation_file(f, f"{ID},x,2", f"b,x,{NUMBER}"), "--epsilon", 1, "--value-range", "1:5"),
    ],
    "fit coupled: private, without a range": lambda f: [
        *(_private_relation(f, f"{ID},x,{NUMBER}", "b,y,2", settings=""), "--epsilon", 1),
    ],
    "fit coupled: private, with zeros that are not stored": lambda f: [
        *(_private_relation(f, f"{ID},x,{NUMBER}", "b,y,2", observed="all"), "--epsilon", 1),
    ],
    "fit coupled: private, another divergence": lambda f: [
        *(_private_relation(f, *(f"{ID},{film},{NUMBER}" for film in "xy"), "b,x,2", "b,y,2"), "--epsilon", 1),
    ],
    "fit coupled: a data file": lambda f: [_csv(f, "a,b", f"{ID},{NUMBER}")],
    "fit local: text": lambda f: [_csv(f, "a,b", f"{ID},2"), "-k", 1],
    "fit local: fractions": lambda f: [_csv(f, "a,b", f"{NUMBER},2", "1,2"), "-k", 1, "--epsilon", 1],
    "fit local: negative counts": lambda f: [_csv(f, "a,b", f"-{COUNT},2", "1,2"), "-k", 1, "--epsilon", 1],
    "fit local: a view that is none": lambda f: [
        *(_csv(f, "a,b", "1,2", "3,4"), "-k", 1, "--view", _file(f, "view.npz", f"PK{ID}")),
    ],
    "fit neural: text": lambda f: [_csv(f, "x,kind", f"{ID},{LABEL}", "b,c"), "--label", "kind"],
    "fit neural: no label of this name": lambda f: [_csv(f, f"{ID},{LABEL}", "b,c"), "--label", "kind"],
    "fit neural: an archive without labels": lambda f: [_archive(f, X=np.ones((COUNT, 2))), "--label", "kind"],
    "fit neural: names as numbers": lambda f: [_classes(f), "--label", "kind", "--label-range", "0:1"],
    "fit neural: no bounds": lambda f: [_classes(f), "--label", "kind", "--epsilon", 1],
    "fit neural: pictures of two sizes": lambda f: [_pictures(f, 8, 9)],
    "fit neural: missing labels": lambda f: [
        *(_csv(f, "x,y,kind", f"1,2,{LABEL}", "2,3,", "3,4,b"), "--label", "kind", "--feature-range", "0:1"),
    ],
    "recommend: an unknown user": lambda f: [
        _model(f),
        "--user",
        f"{ID}x",
        "--data",
        _csv(f, "user,item,rating", f"{ID},{WORD},3"),
    ],
    "recommend: own ratings out of range": lambda f: [
        _model(f),
        "--ratings",
        _csv(f, "item,rating", f"{WORD},{NUMBER}"),
    ],
    "recommend: own ratings of unknown items": lambda f: [_model(f), "--ratings", _csv(f, "item,rating", f"{ID},3")],
    "recommend: other columns": lambda f: [_model(f), "--ratings", _csv(f, f"{ID},{WORD}", "x,3")],
    "recommend: a table in place of a model": lambda f: [_csv(f, "a,b", f"{ID},{NUMBER}"), "--user", "b"],
    "perturb: text": lambda f: [_csv(f, "a,b", f"{ID},2"), "--method", "nmf", "--level", 1],
    "perturb: a record as the first line": lambda f: [
        _csv(f, f"{ID},{NUMBER}", "b,2"),
        "--method",
        "nmf",
        "--level",
        1,
    ],
    "perturb: missing values": lambda f: [_csv(f, "a,b", f"{NUMBER},2", ",3"), "--method", "nmf", "--level", 1],
    "perturb: a constant column": lambda f: [
        _csv(f, "a,b", *[f"{NUMBER},{NUMBER}"] * 9),
        "--method",
        "nmf",
        "--level",
        1,
    ],
    "perturb: missing labels": lambda f: [
        _csv(f, "a,b", f"1,{LABEL}", "2,"),
        "--method",
        "nmf",
        "--level",
        1,
        "--label",
        "b",
    ],
    "perturb: an unknown category": lambda f: [
        *(
            _csv(f, "a,b", f"0.5,{LABEL}", "0.2,x"),
            "--method",
            "private-table",
            "--bounds",
            "a=0:1",
            "--categories",
            "b=x|y",
        ),
    ],
    "perturb: text in a column of numbers": lambda f: [
        *(_csv(f, "a,b", f"{ID},1", "0.2,2"), "--method", "private-table", "--bounds", "a=0:1,b=0:9"),
    ],
    "perturb: a comparison of too few rows": lambda f: [
        _csv(f, "a,b", *[f"{NUMBER},{place}" for place in range(5)]),
        "--compare",
    ],
    "measure table: different labels": lambda f: [
        *(
            _file(f, "o.csv", "a,kind", f"1,{LABEL}", "2,b"),
            _file(f, "r.csv", "a,kind", "1,b", "2,b"),
            "--label",
            "kind",
        ),
    ],
    "measure table: missing values": lambda f: [_file(f, "o.csv", "a,b", f"{NUMBER},", "1,2"), f / "o.csv"],
    "measure table: text only": lambda f: [_file(f, "o.csv", "a,b", f"{ID},{DATE}", "b,c"), f / "o.csv"],
    "measure table: no such column": lambda f: [
        _file(f, "o.csv", f"{ID},{WORD}", "b,c"),
        f / "o.csv",
        "--columns",
        "a",
    ],
    "measure table: large values": lambda f: [_file(f, "o.csv", "a,b", "7.3125e250,1", "1,2", "3,4"), f / "o.csv"],
    "tables schema: a record as the first line": lambda f: [_csv(f, f"{ID},{NUMBER}", "b,2")],
    "tables schema: a long line": lambda f: [_csv(f, "a,b", "1,2", f"{ID},{WORD},{DATE}")],
    "measure ksdp: text": lambda f: [_csv(f, "a,b", f"{ID},2"), "-k", 1],
    "measure ksdp: rows outside": lambda f: [_saved(f, GOOD * NUMBER), "-k", 1, "--only", "99"],
    "parties outline: text as a value": lambda f: [_relation_file(f, f"a,x,{ID}"), "--as", "party-1"],
    "parties outline: no such factor": lambda f: [
        _relation_file(f, f"{ID},x,{COUNT}"),
        "--as",
        "party-1",
        "--shared",
        "place",
    ],
    "parties join: text": lambda f: [*_joined(f), "--data", _csv(f, "a,b", f"{ID},2")],
    "parties join: other columns": lambda f: [*_joined(f), "--data", _csv(f, "a,c", f"{NUMBER},2")],
    "parties join: NaN": lambda f: [*_joined(f), "--data", _saved(f, np.array([[np.nan, NUMBER]]))],
    "parties simulate: text": lambda f: [_csv(f, "a,b", f"{ID},2"), "--output", f / "out"],
    "parties simulate: no such model": lambda f: [_saved(f, GOOD * NUMBER), "--model", "magic", "--output", f / "out"],
    "parties job: features from a broken file": lambda f: [
        *("study", "--model", "nmf", "--party", "a", "--features", _csv(f, f"{ID},{NUMBER}", "b,2")),
    ],
    "parties review: a data file": lambda f: [_csv(f, "a,b", f"{ID},{NUMBER}")],
    "parties seal: a data file": lambda f: [_csv(f, "a,b", f"{ID},{NUMBER}")],
    "budget open: a folder with a link": lambda f: [
        *("--data", _with_link(f), "--epsilon", 1, "--delta", 1e-6, "--ledger", f / "l.db"),
    ],
    "budget show: a data file": lambda f: ["--ledger", _csv(f, "a,b", f"{ID},{NUMBER}")],
    "budget history: no account": lambda f: ["--data", _csv(f, "a,b", f"{ID},{NUMBER}"), "--ledger", f / "l.db"],
    "budget verify: a data file": lambda f: ["--ledger", _csv(f, "a,b", f"{ID},{NUMBER}")],
}
WITHOUT_DATA = {"app", "demo", "calibrate", "reproduce", "parties init", "tables sample"}


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True], ids=["for people", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_commands(listen, tmp_path, monkeypatch, name, as_json):
    monkeypatch.chdir(tmp_path)
    command = name.partition(":")[0].split()
    if command[:2] == ["fit", "neural"]:
        pytest.importorskip("torch")
    arguments = list(map(str, COMMANDS[name](tmp_path)))
    if as_json and command[-1] in ("seal", "job", "outline"):
        pytest.skip("has no --json")
    flags = ["--json"] if as_json else []
    # what follows the options of an audit is the command that is audited
    given = [*flags, *arguments] if command == ["audit"] else [*arguments, *flags]
    monkeypatch.setattr(sys, "argv", ["tacit", *command, *given])
    said = listen(main)
    assert isinstance(said.error, SystemExit)
    assert said.error.code not in (0, None), said.text
    shown = (
        json.loads(said.text[said.text.index('{"error"') :].splitlines()[0])["error"]["message"]
        if as_json
        else said.text
    )
    assert "expected" in shown, said.text
    assert "unexpected" not in shown, said.text
    assert not said.leaks


def test_an_unexpected_error_of_a_command_shows_its_type_and_place_only(listen, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ValueError(f"could not convert string to float: {ID!r}")

    monkeypatch.setattr("tacit.data.files.read_frame", broken)
    arguments = ["tacit", "perturb", str(_csv(tmp_path, "a,b", f"{NUMBER},2"))]
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", [*arguments, *more])
        said = listen(main)
        assert said.error.code == 1, said.text
        assert "unexpected ValueError in tacit/cli/read.py, line" in said.text
        assert "--debug" in said.text
        assert not said.leaks
    monkeypatch.setattr(sys, "argv", ["tacit", "--debug", *arguments[1:]])
    assert listen(main).leaks, "the holder asked for everything"
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setenv("TACIT_DEBUG", "1")
    assert listen(main).leaks
    monkeypatch.setenv("TACIT_DEBUG", "0")
    assert not listen(main).leaks


def test_debugging_shows_causes_that_are_otherwise_suppressed(listen, tmp_path, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["tacit", "--debug", "fit", "svd", str(_csv(tmp_path, *LATE, f"{ID},3,{WORD}")), "-k", "1"]
    )
    said = listen(main)
    assert said.error.code == 2
    assert "ComputeError" in said.text


def test_a_disk_error_of_a_command_has_no_path(listen, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", f"{ID}.txt")

    monkeypatch.setattr("tacit.data.files.read_frame", full)
    monkeypatch.setattr(sys, "argv", ["tacit", "perturb", str(_csv(tmp_path, "a", "1"))])
    said = listen(main)
    assert said.error.code == 1
    assert "No space left on device" in said.text
    assert not said.leaks


# --- what leaves to other parties


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"could not convert string to float: {ID!r}"),
        KeyError(ID),
        InvalidInputError("ratings", parameter(NUMBER), "Do it."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_party_that_stops_tells_the_others_no_value(error, monkeypatch):
    link, sent = party_link.Link(_job(), 0), []
    link.wire = types.SimpleNamespace(send=sent.append, has_room=lambda peer: None)
    link.seal(1, b"k" * 16, b"l" * 16)
    link.stop(error)
    (frames,) = sent
    assert type(error).__name__.encode() in frames[1]
    assert not PLANTED.search(frames[1].decode(errors="replace"))


def test_a_party_on_this_computer_that_fails_reports_no_value(monkeypatch):
    def failing(*_, **__):
        raise ValueError(f"could not convert string to float: {ID!r}")

    sent = []
    monkeypatch.setattr(local_parties, "join", failing)
    local_parties._party(types.SimpleNamespace(send=sent.append), (None,) * 4 + ({},), 1, False)
    ((kind, error),) = sent
    assert kind == "error"
    assert "ValueError" in str(error)
    assert not PLANTED.search("".join(traceback.format_exception(error)))


def test_a_step_of_the_secure_computation_that_fails_reports_no_value(monkeypatch):
    from tacit.channel.directions.worker import Worker

    worker = object.__new__(Worker)
    worker._loop = __import__("asyncio").new_event_loop()

    async def failing(*_):
        raise ValueError(f"share of {ID}")

    monkeypatch.setattr(worker, "_watch", failing)
    with contextlib.closing(worker._loop), pytest.raises(TacitError) as caught:
        worker._run(lambda: None, 1.0)
    assert not PLANTED.search("".join(traceback.format_exception(caught.value)))


# --- reprs

HOLDERS = {
    "Relation": lambda: _relation(np.full((3, 2), NUMBER)),
    "Relation with few cells": lambda: _listed(np.stack([np.arange(COUNT)] * 2, 1), [NUMBER] * COUNT, (9000, 9000)),
    "RatingTable": lambda: read_ratings(RATERS, FILMS, [NUMBER] * 4),
    "Site": lambda: Site("a", _relation(CELLS), [Outline.of(_relation(CELLS), "a")]),
    "PartyData": lambda: PartyData(np.full((2, 2), NUMBER), [ID]),
    "Outcome": lambda: Outcome({"a": CELLS}, {"rows": CELLS}),
    "Sum": lambda: Sum(a=CELLS, bound=1.0, units=COUNT),
    "Sample": lambda: Sample(COUNT, 0.5),
    "TermCounts": lambda: term_counts([f"{WORD} moon", f"{WORD} moon"], max_fraction=1.0),
    "HeldOut": lambda: hold_out(_relation(np.full((30, 20), NUMBER)), 0.5),
    "NMF, fitted": lambda: tacit.NMF(2).fit(GOOD * NUMBER),
    "PrivateRecommender, fitted": lambda: _private().fit(RATERS, FILMS, STARS),
    "PrivateImplicitRecommender, fitted": lambda: _implicit(catalogue=["x", "y", "z"]).fit(
        RATERS, ["x", "y", "x", "z"]
    ),
    "PrivateRecommender with budgets": lambda: (
        _private().set_params(epsilon={ID: 1.0, "b": 1.0, "c": 0.5}).fit(RATERS, FILMS, STARS)
    ),
    "LocallyPrivateCounts": lambda: LocallyPrivateCounts(1.0),
    "PrivateTable, fitted": lambda: tacit.PrivateTable(schema=NumberColumn(0, 1)).fit(GOOD * NUMBER),
    "CorrelationAware, fitted": lambda: p.CorrelationAware(0.5).fit(GOOD * NUMBER, LABELS),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HOLDERS)
def test_reprs(name):
    holder = HOLDERS[name]()
    assert not PLANTED.search(f"{holder!r} {holder}")


@pytest.mark.filterwarnings("ignore")
def test_notebooks_show_of_a_private_model_what_may_be_released():
    """scikit-learn shows fitted attributes, also those that were computed without noise."""
    model = _private().set_params(epsilon={ID: 1.0, "b": 1.0, "c": 0.5}).fit(RATERS, FILMS, STARS)
    page = model._repr_html_()
    assert "item_factors_" in page
    assert "n_duplicates_" not in page
    assert not re.search("zebedee", page, re.IGNORECASE)
    page = tacit.PrivateNMF(2).fit(GOOD)._repr_html_()
    assert "components_" in page
    assert "clipped_fraction_" not in page


PUBLIC_HOLDERS = {
    # made up by tacit
    *("Documents", "Images", "Ratings", "Coupled", "Demonstration"),
    # released, or computed from what was
    *(
        "NoisyCounts",
        "PaidVocabulary",
        "CentredMoments",
        "ItemSide",
        "NonNegativeSide",
        "RowPosterior",
        "Posterior",
        "FixedFactors",
        "Search",
        "ChosenItems",
        "ItemModel",
        "ReleasedItems",
        "MeasuredTables",
    ),
    # results that are for the holder, and are shown on purpose
    *("Match", "Reliability", "KSDP", "Rates"),
    # tables of the samplers; what a private fit is replayed with
    *("Slabs", "_Round", "_Log"),
}


def test_every_holder_of_arrays_hides_them():
    """A dataclass prints its fields; one that has arrays says which it is: undisclosed, or public."""
    shown = set()
    for module in pkgutil.walk_packages(tacit.__path__, "tacit."):
        with contextlib.suppress(ImportError):
            for name, cls in vars(importlib.import_module(module.name)).items():
                if not (inspect.isclass(cls) and cls.__module__ == module.name and dataclasses.is_dataclass(cls)):
                    continue
                kinds = " ".join(str(field.type) for field in dataclasses.fields(cls) if field.repr)
                has_arrays = re.search(
                    r"NDArray|csr_array|Floats|Coords|Whole|Tensor|DataFrame|Numbers|\bMatrix\b", kinds
                )
                if has_arrays and cls.__dataclass_params__.repr and not issubclass(cls, Undisclosed | Shown):
                    shown.add(name)
    assert shown <= PUBLIC_HOLDERS
    assert repr(RatingTable(*[CELLS] * 5)).startswith("RatingTable(users: ndarray")


# --- that nothing is left out


def _commands(command, path=()):
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from _commands(below, (*path, name))
    else:
        yield " ".join(path)


def _estimators():
    for module in pkgutil.walk_packages(tacit.__path__, "tacit."):
        with contextlib.suppress(ImportError):
            for name, cls in vars(importlib.import_module(module.name)).items():
                if inspect.isclass(cls) and issubclass(cls, BaseEstimator) and cls.__module__ == module.name:
                    yield name


def _subjects(*cases):
    return {name.partition(":")[0] for group in cases for name in group}


def test_every_command_has_a_case():
    assert set(_commands(typer.main.get_command(app))) - WITHOUT_DATA == _subjects(COMMANDS)


def test_every_estimator_and_measure_has_a_case():
    bases = {"Estimator", "SavedModel", "PrivateFit", "ScheduledFit", "TablePerturbation", "LowRank", "Components"}
    bases |= {"RatingModel", "ImplicitModel", "PrivateComponents", "FittedFactors", "PrivateFactors", "PrivateNetwork"}
    tested = _subjects(CASES) | set(TABLE_MODELS)
    assert not set(_estimators()) - bases - tested
    functions = {
        name for module in (m, attacks, report) for name in module.__all__ if inspect.isfunction(getattr(module, name))
    }
    # fit_partitions needs a cluster: tests/cluster plants values in partitions
    assert not functions - {"fraction_interval", "demonstrate", "fit_partitions"} - tested


@pytest.mark.slow
def test_causes_are_dropped_where_data_is_read():
    """The message of numpy, polars or scikit-learn may quote the data; `from error` would show it in the traceback."""
    kept = set()
    for package in ("channel", "cli", "data", "estimators", "factor", "measure", "perturb", "synthetic"):
        for path in (SOURCE / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.cause, ast.Name):
                    kept.add(f"{path.relative_to(SOURCE)}: {ast.unparse(node)[:60]}")
    assert not kept

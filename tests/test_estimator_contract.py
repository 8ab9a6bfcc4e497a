"""What every registered estimator keeps to: fits from nothing, one frozen result, and nothing private in files and pickles."""

import copy
import dataclasses
import inspect
import io
import json
import pickle
import struct
import sys
import warnings
import zipfile
from collections.abc import Mapping
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import tacit
from tacit import Ledger, LocallyPrivateCounts, PrivateMoments, Relation, choose_rank, show_progress
from tacit.data import NumberColumn, TableSchema
from tacit.errors import InvalidInputError, PrivacyWarning
from tacit.estimators.base import Estimator, in_file, learned, pickling_everything, released
from tacit.estimators.private import PrivateFit
from tacit.estimators.registry import ESTIMATORS
from tacit.estimators.saved import SavedModel
from tacit.estimators.scheduled import ScheduledFit
from tacit.privacy.vocabulary import private_vocabulary
from tacit.progress import tell

HAS_TORCH = find_spec("torch") is not None
NAMES = [name for name, entry in ESTIMATORS.items() if HAS_TORCH or not entry.extra]
RNG = np.random.default_rng(20)
X = RNG.random((60, 5))
Y = X @ np.arange(5.0)
LABELS = np.where(X.sum(axis=1) > 2.5, "above", "below")
USERS = np.array([f"planted-user-{user:03}" for user in np.repeat(np.arange(40), 5)])
ITEMS = np.array([f"item-{item}" for item in np.tile(np.arange(10), 20)])
RATINGS = RNG.uniform(1, 5, 200)  # no rounder than a double can be: each can be told from any other number
CELLS = np.stack(np.unravel_index(RNG.choice(30 * 6, 120, replace=False), (30, 6)), axis=1)
VALUES = RNG.uniform(0, 1, 120)
RELATION = Relation((CELLS, VALUES, (30, 6)), "ir,jr->ij", ("user", "film"), observed="stored", divergence="euclid")
COUNTS = RNG.poisson(4.0, (12, 5))
NAN = np.full((20, 5), np.nan)


@dataclasses.dataclass(frozen=True)
class Case:
    """How a class is fitted here: settings, others to refit with, data, and data that no fit takes."""

    settings: dict
    others: dict
    data: tuple
    bad: tuple


CASES = {
    "NMF": Case({"n_components": 2, "max_iter": 4, "init": RNG.random((2, 5))}, {"init": "random"}, (X,), (NAN,)),
    "SVD": Case({"n_components": 2, "hide_singular_values": False}, {"hide_singular_values": True}, (X,), (NAN,)),
    "PCA": Case({"n_components": 2, "hide_singular_values": False}, {"hide_singular_values": True}, (X,), (NAN,)),
    "PrincipalComponentRegression": Case(
        {"n_components": 2, "hide_singular_values": False}, {"hide_singular_values": True}, (X, Y), (NAN, Y[:20])
    ),
    "Recommender": Case(
        {"n_factors": 2, "sweeps": 2, "rating_range": (0.5, 5.5)},
        {"n_factors": 1},
        (USERS, ITEMS, RATINGS),
        (USERS, ITEMS, RATINGS * np.nan),
    ),
    "RatingNMF": Case(
        {"n_factors": 2, "sweeps": 2, "rating_range": (0.5, 5.5)},
        {"n_factors": 1},
        (USERS, ITEMS, RATINGS),
        (USERS, ITEMS, RATINGS * np.nan),
    ),
    "ImplicitRecommender": Case(
        {"ridge": 2.5, "user_power": 0.25},
        {"catalogue": [f"item-{item}" for item in range(12)]},
        (USERS, ITEMS, RATINGS),
        (USERS, ITEMS, RATINGS * np.nan),
    ),
    "CoupledFactorization": Case(
        {"ranks": {"r": 2}, "inference": "sgld", "burn_in": 2, "n_samples": 3, "thin": 1},
        {"inference": "map", "max_iter": 3},
        ([RELATION],),
        ("nothing",),
    ),
    "LocalCountFactorization": Case(
        {"n_components": 2, "sweeps": 6, "burn_in": 3, "n_samples": 2},
        {"prior_rate": 1.0},
        ([COUNTS],),
        ([COUNTS - 100],),
    ),
    "PrivateMoments": Case({"row_norm": 2.5}, {"epsilon": np.inf}, (X,), (NAN,)),
    "PrivateNMF": Case(
        {"n_components": 2, "method": "rounds", "rounds": 2, "init": RNG.random((2, 5)), "row_norm": 1.2},
        {"method": "moments", "init": "random"},
        (X,),
        (NAN,),
    ),
    "PrivateRatingNMF": Case(
        {"n_factors": 2, "rating_range": (0.5, 5.5)},
        {"catalogue": [f"item-{item}" for item in range(12)]},
        (USERS, ITEMS, RATINGS),
        (USERS, ITEMS, RATINGS * np.nan),
    ),
    "PrivateSVD": Case({"n_components": 2, "row_norm": 1.2}, {"epsilon": np.inf}, (X,), (NAN,)),
    "PrivatePCA": Case(
        {"n_components": 2, "feature_range": ([0.0] * 5, [1.0] * 5), "row_norm": 0.6},
        {"non_negative": True},
        (X,),
        (NAN,),
    ),
    "PrivatePCR": Case(
        {"n_components": 2, "feature_range": (0, 1), "target_range": (0, 10), "row_norm": 0.6},
        {"epsilon": np.inf},
        (X, Y),
        (NAN, Y[:20]),
    ),
    "PrivateRecommender": Case(
        {"n_factors": 2, "method": "gradient", "unit": "cell", "rounds": 2, "rating_range": (0.5, 5.5)},
        {"method": "moments", "unit": "user", "catalogue": [f"item-{item}" for item in range(12)]},
        (USERS, ITEMS, RATINGS),
        (USERS, ITEMS, RATINGS * np.nan),
    ),
    "PrivateImplicitRecommender": Case(
        {"catalogue": [f"item-{item}" for item in range(10)], "weighting": "linear", "epsilon": 50.0},
        {"features": RNG.random((10, 2)), "max_columns": 4},
        (USERS, ITEMS, RATINGS),
        (USERS, ITEMS, RATINGS * np.nan),
    ),
    "PrivateCoupledFactorization": Case(
        {"ranks": {"r": 1}, "value_range": (0, 1), "shared": ("film",), "epsilon": 50.0},
        {"method": "sgld", "rounds": 3, "protect": "user"},
        ([RELATION],),
        ("nothing",),
    ),
    "PrivateTable": Case(
        {"schema": TableSchema({str(place): NumberColumn(0.0, 1.0) for place in range(5)})},
        {"schema": {str(place): NumberColumn(0, 1, decimals=2) for place in range(5)}, "epsilon": np.inf},
        (X,),
        (NAN,),
    ),
    "PrivateBayesianClassifier": Case(
        {"hidden": (3,), "classes": ("above", "below"), "epochs": 1, "n_samples": 2, "image_shape": (1, 5)},
        {"method": "dp-sgd", "image_shape": None},
        (X, LABELS),
        (NAN, LABELS[:20]),
    ),
    "PrivateBayesianRegressor": Case(
        {"hidden": (3,), "target_range": (0, 10), "epochs": 1, "n_samples": 2, "feature_range": (0.0, 0.9)},
        {"method": "dp-sgd"},
        (X, Y),
        (NAN, Y[:20]),
    ),
}
PRIVATE = [name for name in NAMES if issubclass(ESTIMATORS[name].load_class(), PrivateFit)]
HOLD_PRIVATE_STATE = {
    "PrivateImplicitRecommender",
    "PrivateNMF",
    "PrivatePCA",
    "PrivatePCR",
    "PrivateRatingNMF",
    "PrivateSVD",
    "PrivateRecommender",
    "PrivateCoupledFactorization",
    "PrivateBayesianClassifier",
    "PrivateBayesianRegressor",
}
"""Private models that keep something beside what they release."""


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield


def made(name, **more):
    return ESTIMATORS[name].load_class()(**{**copy.deepcopy(CASES[name].settings), **more})


def fitted(name, **more):
    return made(name, **more).fit(*CASES[name].data)


def contents(path):
    """Return all bytes of a saved file, not compressed."""
    with zipfile.ZipFile(path) as archive:
        return b"\n".join(archive.read(name) for name in sorted(archive.namelist()))


def saved(model, tmp_path, name="model.tacit"):
    model.save(tmp_path / name)
    return contents(tmp_path / name)


def same(left, right):
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        left, right = np.asarray(left), np.asarray(right)
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if isinstance(left, Mapping):
        return set(left) == set(right) and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def leaves(value, depth=0):
    """Yield the numbers and texts of a value, however it is nested."""
    if isinstance(value, str | float):
        yield value
    elif isinstance(value, np.ndarray | np.generic):
        yield from np.asarray(value).ravel().tolist()
    elif isinstance(value, Mapping):
        yield from (leaf for item in [*value.keys(), *value.values()] for leaf in leaves(item, depth + 1))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (leaf for item in value for leaf in leaves(item, depth + 1))
    elif hasattr(value, "__dict__") and depth < 4:
        yield from leaves([*vars(value).values()], depth + 1)  # the names of fields are code


def is_told_apart(leaf):
    """Whether a value is so particular that it does not occur by accident."""
    if isinstance(leaf, float):
        return np.isfinite(leaf) and float(f"{leaf:.8g}") != leaf
    return isinstance(leaf, str) and len(leaf) >= 8


def forms(leaf):
    if isinstance(leaf, str):
        return [leaf.encode(), leaf.encode("utf-32-le")]
    narrow = np.float32(leaf)
    return [struct.pack("<d", leaf), struct.pack(">d", leaf), repr(leaf).encode(), narrow.tobytes()]


def found_in(content, value):
    return [leaf for leaf in {*filter(is_told_apart, leaves(value))} if any(form in content for form in forms(leaf))]


def test_the_search_finds_what_is_there():
    assert found_in(pickle.dumps({"a": [VALUES]}), VALUES[:3]) != []
    assert found_in(pickle.dumps(float(VALUES[0])), VALUES[0]) != []
    assert found_in(json.dumps(VALUES.tolist()).encode(), VALUES) != []
    assert found_in(USERS.tobytes(), USERS[:1]) != []
    assert found_in(pickle.dumps({"a": [VALUES]}), RATINGS) == []


# the registry ---------------------------------------------------------------------------------------------------------


def test_every_case_is_an_entry_and_every_entry_a_case():
    assert set(CASES) == set(ESTIMATORS)


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_names_a_class_that_can_be_saved(name):
    cls = ESTIMATORS[name].load_class()
    assert cls.__name__ == name
    assert issubclass(cls, SavedModel)
    assert getattr(tacit, name) is cls


def test_every_public_estimator_is_in_the_registry():
    """All classes of the package are checked: those that can be saved and have no subclass are for users."""
    for module in walk_packages(tacit.__path__, "tacit."):
        if HAS_TORCH or not module.name.startswith("tacit.neural"):
            import_module(module.name)

    def below(cls):
        return {cls}.union(*(below(child) for child in cls.__subclasses__()))

    ours = {cls for cls in below(Estimator) if cls.__module__.startswith("tacit.")}
    parents = {parent for cls in ours for parent in cls.__mro__[1:]}
    concrete = {cls for cls in ours if issubclass(cls, SavedModel) and cls not in parents}
    concrete |= {getattr(tacit, name) for name in tacit.__all__ if is_saved_class(getattr(tacit, name))}
    assert {cls.__name__ for cls in concrete} == set(NAMES)
    assert all(cls in ours for cls in below(BaseEstimator) if cls.__module__.startswith("tacit."))


def is_saved_class(value):
    return inspect.isclass(value) and issubclass(value, SavedModel)


def test_nothing_outside_the_registry_is_imported_because_a_file_names_it(tmp_path, monkeypatch):
    (tmp_path / "planted_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    fitted("PrivateMoments").save(tmp_path / "model")
    with np.load(tmp_path / "model") as archive:
        entries = dict(archive)
    header = json.loads(entries["model.json"].tobytes())
    for named in (
        "planted_module",
        "planted_module.PrivateMoments",
        "tacit.planted_module",
        "SavedModel",
        ["NMF"],
        None,
    ):
        forged = {**header, "class": named, "module": "planted_module"}
        entries["model.json"] = np.frombuffer(json.dumps(forged).encode(), np.uint8)
        np.savez(tmp_path / "forged.npz", **entries)
        with pytest.raises(InvalidInputError, match="a class among"):
            tacit.load(tmp_path / "forged.npz")
    assert "planted_module" not in sys.modules


@pytest.mark.parametrize("place", ["parameters", "values"])
def test_a_file_cannot_set_what_is_not_declared(place, tmp_path):
    fitted("PrivateMoments").save(tmp_path / "model")
    with np.load(tmp_path / "model") as archive:
        entries = dict(archive)
    for name in ("ledger", "dataset", "insecure_seed", "_has_released", "fit", "__class__"):
        header = json.loads(entries["model.json"].tobytes())
        header[place][name] = "planted"
        np.savez(
            tmp_path / "forged.npz", **{**entries, "model.json": np.frombuffer(json.dumps(header).encode(), np.uint8)}
        )
        with pytest.raises(InvalidInputError, match="1 unknown field"):
            tacit.load(tmp_path / "forged.npz")


def test_a_guarantee_can_be_extended_and_is_saved_so(tmp_path):
    vocabulary = private_vocabulary(["the moon"] * 300, epsilon=1.0, delta=1e-5, fraction=0.5)
    model = made("PrivateMoments", **vars(vocabulary.rest)).fit(X)
    alone = model.guarantee_
    model.extend_guarantee("the moon is public", earlier=vocabulary)
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model").guarantee_
    assert alone.epsilon < 0.9 < again.epsilon <= 1.0
    assert again.assumptions == (*alone.assumptions, "the moon is public")
    with pytest.raises(InvalidInputError, match="not fitted"):
        made("PrivateMoments").extend_guarantee("anything")


# declarations ---------------------------------------------------------------------------------------------------------


def test_a_class_must_say_what_may_leave():
    with pytest.raises(TypeError, match="Careless must say of secret"):

        class Careless(SavedModel):
            secret: int = 3

    with pytest.raises(TypeError, match="CarelessToo must say of found_"):

        class CarelessToo(SavedModel):
            found_: int


@pytest.mark.parametrize("name", NAMES)
def test_constructors_have_signatures_and_only_store(name):
    cls = ESTIMATORS[name].load_class()
    parameters = inspect.signature(cls).parameters
    assert set(parameters) == set(cls().get_params())
    assert all(one.kind is one.KEYWORD_ONLY for one in list(parameters.values())[1:])
    assert vars(cls()) == {parameter.name: parameter.default for parameter in parameters.values()}
    with pytest.raises(TypeError, match="unexpected keyword"):
        cls(nonsense=1)


@pytest.mark.parametrize("name", PRIVATE)
def test_private_estimators_withhold_the_same_parameters(name):
    cls = ESTIMATORS[name].load_class()
    withheld = {field.name for field in dataclasses.fields(cls) if field.init and not field.metadata["public"]}
    of_schedules = {"schedule_file"} if issubclass(cls, ScheduledFit) else set()
    assert withheld == {"ledger", "dataset", "insecure_seed", "verbose"} | of_schedules
    assert not withheld & in_file(cls)


# progress -------------------------------------------------------------------------------------------------------------

QUICK_TO_THE_END = {"SVD", "PCA"}
"""Alone they call ARPACK once, which tells nothing."""


@pytest.mark.parametrize("name", NAMES)
def test_every_fit_tells_its_progress_to_those_who_listen(name):
    told = []
    with show_progress(told.append):
        fitted(name)
    own = [one for one in told if one.within == (name,)]
    assert str(own[-1]) == "done"
    assert name in QUICK_TO_THE_END or any(one.done for one in own)


@pytest.mark.parametrize("name", [name for name in PRIVATE if name != "PrivateCoupledFactorization"])
def test_what_a_private_fit_tells_does_not_depend_on_the_data(name):
    heard = []
    for most in (None, 25):
        told = []
        with show_progress(told.append):
            made(name).fit(*[part[:most] for part in CASES[name].data])
        heard.append([str(one) for one in told if one.within == (name,)])  # what follows from noisy sums is released
    assert heard[0] == heard[1]


def test_verbose_writes_lines_to_standard_error(capsys, tmp_path):
    model = PrivateMoments(verbose=True, row_norm=2.0).fit(X)
    model.save(tmp_path / "model")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split("] ")[1] for line in shown.err.splitlines()] == [
        "PrivateMoments: sum 1 of 1",
        "PrivateMoments: computing the result",
        "PrivateMoments: done",
    ]
    assert tacit.load(tmp_path / "model").verbose is False
    PrivateMoments(row_norm=2.0).fit(X)
    assert capsys.readouterr().err == ""


def test_counts_that_follow_at_once_are_left_out_of_the_lines(capsys):
    with show_progress():
        for step in range(1, 101):
            tell("sum", step, 100)
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) < 10
    assert shown[0].endswith("sum 1 of 100")
    assert shown[-1].endswith("sum 100 of 100")


# files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_file_restores_all_public_settings_and_released_values(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model")
    given = {key: value for key, value in model.get_params().items() if key in in_file(type(model))}
    assert all(same(getattr(again, key), value) for key, value in given.items())
    assert set(CASES[name].settings) <= set(given)
    values = {key for key in model._released if hasattr(model, key)}
    assert values
    assert all(same(getattr(again, key), getattr(model, key)) for key in values)
    assert str(again.guarantee_) == str(model.guarantee_)
    assert saved(again, tmp_path, "again") == contents(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIVATE)
def test_nothing_private_is_in_files_and_pickles(name, tmp_path):
    ledger = Ledger(tmp_path / "planted-ledger.db")
    units = {
        "PrivateRecommender": "cell",
        "PrivateCoupledFactorization": "user",
        "PrivateImplicitRecommender": "user",
        "PrivateRatingNMF": "user",
    }
    unit = units.get(name, "row")
    adjacency = "replace-one" if name == "PrivateRecommender" else "add-remove"
    ledger.open_account("planted-data-set", epsilon=100.0, delta=1e-5, unit=unit, adjacency=adjacency)
    charged = fitted(name, ledger=ledger, dataset="planted-data-set")
    seeded = fitted(name, insecure_seed=987654321)
    for model in (charged, seeded):
        bookkeeping = {"guarantee_", "_result", "_names_of_fit", "_has_released"}
        released_names = {*model._released, *model._public_parameters(), *bookkeeping}
        stays = [*leaves([value for key, value in vars(model).items() if key not in released_names])]
        stays = [leaf for leaf in stays if leaf not in set(leaves(model._result.values))]
        raw = VALUES if name == "PrivateCoupledFactorization" else [*CASES[name].data]
        with io.BytesIO() as dumped:
            joblib.dump(model, dumped)
            released_forms = [saved(model, tmp_path), pickle.dumps(model), dumped.getvalue()]
        for content in released_forms:
            assert found_in(content, stays) == []
            assert found_in(content, raw) == []
            assert b"planted" not in content
            assert b"987654321" not in content
            assert struct.pack("<i", 987654321) not in content
        if name in HOLD_PRIVATE_STATE:
            with pickling_everything():
                assert found_in(pickle.dumps(model), stays) != []


def test_budgets_of_single_users_are_not_in_the_file(tmp_path):
    budgets = {user: 1.0 + place / 128 for place, user in enumerate(np.unique(USERS).tolist())}
    for epsilon in (budgets, list(budgets.values())):
        settings = {"method": "moments", "unit": "user", "epsilon": epsilon}
        model = fitted("PrivateRecommender", **settings)
        for content in (saved(model, tmp_path), pickle.dumps(model)):
            assert b"planted-user" not in content
            assert b"1.1015625" not in content
            assert struct.pack(">d", 1.1015625) not in content
        assert tacit.load(tmp_path / "model.tacit").epsilon == 1 + 39 / 128


@pytest.mark.parametrize("name", NAMES)
def test_later_changes_do_not_reach_the_file(name, tmp_path):
    model = fitted(name)
    before = saved(model, tmp_path)
    values = {key: getattr(model, key) for key in model._released if hasattr(model, key)}
    for key, value in [*values.items(), *model.get_params().items()]:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            np.add(value, 1.0, out=value)
        elif isinstance(value, dict | list):
            value.clear()
        if key in values:
            setattr(model, key, 3.25)
    model.guarantee_ = tacit.Guarantee.none("planted")
    changed = {key: 77 for key in model.get_params() if key in ("epsilon", "delta", "random_state", "n_components")}
    model.set_params(**changed)
    assert saved(model, tmp_path) == before
    if name in PRIVATE:
        again = pickle.loads(pickle.dumps(model))
        assert saved(again, tmp_path) == before


# state ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_refit_leaves_nothing_of_the_fit_before(name, tmp_path):
    model = fitted(name)
    others = CASES[name].others
    model.set_params(**others).fit(*CASES[name].data)
    fresh = made(name, **others).fit(*CASES[name].data)
    assert set(vars(model)) - {"_has_released"} == set(vars(fresh)) - {"_has_released"}
    assert set(model._result.values) == set(fresh._result.values)
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model")
    assert again.guarantee_.holds == fresh.guarantee_.holds
    assert all(same(getattr(again, key), value) for key, value in others.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_after_a_failed_refit_there_is_no_model(name, tmp_path):
    model = fitted(name)
    vars(model)["found_"] = "by hand"
    with pytest.raises(InvalidInputError):
        model.fit(*CASES[name].bad)
    assert set(vars(model)) - {"_has_released"} == set(model.get_params())
    with pytest.raises(InvalidInputError, match="not fitted"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
    assert set(vars(model.fit(*CASES[name].data))) == set(vars(fitted(name))) | ({"_has_released"} & set(vars(model)))


@pytest.mark.parametrize("name", PRIVATE)
def test_a_fit_that_fails_late_leaves_nothing(name, monkeypatch):
    model = fitted(name)

    def fails(self, plan):
        assert set(vars(self)) - set(self.get_params()), "something was set by now"
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivateFit, "_ready_to_release", fails)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*CASES[name].data)
    assert set(vars(model)) == {*model.get_params(), "_has_released"}


def test_a_batch_that_fails_leaves_the_model_of_the_batches_before(tmp_path):
    model = made("NMF").partial_fit(X[:30]).partial_fit(X[30:])
    before = saved(model, tmp_path)
    with pytest.raises(InvalidInputError):
        model.partial_fit(NAN)
    assert saved(model, tmp_path) == before
    assert saved(model.partial_fit(X), tmp_path) != before
    assert model.n_iter_ == tacit.load(tmp_path / "model.tacit").n_iter_


@pytest.mark.slow
def test_sites_that_are_fitted_together_leave_nothing_in_the_estimator_that_was_asked():
    estimator = made("PrivateCoupledFactorization").fit([RELATION])
    models = estimator.fit_sites([[RELATION], [RELATION]])
    assert set(vars(estimator)) == {*estimator.get_params(), "_has_released", "_names_of_fit"}
    assert all(model.guarantee_.holds for model in models)


def test_a_fit_within_a_fit_belongs_to_it():
    class Outer(ESTIMATORS["PrivateMoments"].load_class()):
        note_: str = learned()
        kind_: str = released()

        def fit(self, X, y=None):
            self.note_, self.kind_ = "kept", "outer"
            return super().fit(X)

    model = Outer().fit(X)
    assert (model.note_, model._result.values["kind_"]) == ("kept", "outer")
    with pytest.raises(InvalidInputError):
        model.fit(NAN)
    assert not hasattr(model, "note_")


# copies and pickles ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_pickles_say_what_they_leave_out_and_work_like_loaded_models(name, tmp_path):
    model = fitted(name)
    if name in PRIVATE:
        with pytest.warns(PrivacyWarning, match="holds what may be released"):
            content = pickle.dumps(model)
        again = pickle.loads(content)
        model.save(tmp_path / "model")
        assert set(vars(again)) == set(vars(tacit.load(tmp_path / "model")))
        assert again.ledger is again.dataset is again.insecure_seed is None
    else:
        again = pickle.loads(pickle.dumps(model))
        assert set(vars(again)) == set(vars(model))
    assert saved(again, tmp_path) == saved(model, tmp_path)
    assert str(again.guarantee_) == str(model.guarantee_)
    assert again.get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize("name", PRIVATE)
def test_an_estimator_that_is_not_fitted_is_pickled_with_its_ledger(name, tmp_path):
    Ledger(tmp_path / "ledger.db")
    model = made(name, ledger=Ledger(tmp_path / "ledger.db"), dataset="data", insecure_seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(model))
    assert (again.ledger.path, again.dataset, again.insecure_seed) == (tmp_path / "ledger.db", "data", 4)


@pytest.mark.parametrize("name", NAMES)
def test_copies_hold_everything_and_clones_only_parameters(name, tmp_path):
    model = fitted(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deep, shallow, twin = copy.deepcopy(model), copy.copy(model), clone(model)
    assert set(vars(deep)) == set(vars(shallow)) == set(vars(model))
    assert set(vars(twin)) == set(model.get_params())
    assert saved(deep, tmp_path) == saved(model, tmp_path)
    deep.fit(*CASES[name].data)
    assert hasattr(model, "_result")


# ledgers --------------------------------------------------------------------------------------------------------------

WITHOUT_GUARANTEE = {
    "infinite epsilon": ({"epsilon": np.inf}, "epsilon=inf"),
    "a seed": ({"insecure_seed": 3}, "insecure_seed"),
}
REFUSED = [(name, *reason) for name in PRIVATE for reason in WITHOUT_GUARANTEE.values()] + [
    ("PrivateNMF", {"method": "published"}, "published"),
    ("PrivateRecommender", {"method": "published"}, "published"),
    ("PrivateRecommender", {"epsilon": {"a": np.inf, "b": np.inf}}, "epsilon=inf"),
    ("PrivateRecommender", {"epsilon": [np.inf, np.inf]}, "epsilon=inf"),
]


@pytest.mark.parametrize(("name", "settings", "what"), REFUSED)
def test_a_fit_without_a_guarantee_does_not_pass_a_ledger_by(name, settings, what, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    head = ledger.head
    for given in (ledger, tmp_path / "ledger.db", str(tmp_path / "ledger.db")):
        with pytest.raises(InvalidInputError, match=what):
            made(name, ledger=given, dataset="data", **settings).fit("no data is looked at")
    assert ledger.head == head


@pytest.mark.parametrize("settings", [{"epsilon": np.inf}, {"epsilon": 1.0, "insecure_seed": 3}])
def test_functions_without_a_guarantee_do_not_pass_a_ledger_by(settings, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    head = ledger.head
    for release in (
        lambda: choose_rank(X, [1, 2], ledger=ledger, dataset="data", **settings),
        lambda: private_vocabulary(["some words"] * 9, delta=1e-5, ledger=ledger, dataset="data", **settings),
        lambda: LocallyPrivateCounts(ledger=ledger, dataset="data", **settings).privatise(COUNTS),
    ):
        with pytest.raises(InvalidInputError, match="a ledger can account for"):
            release()
    assert ledger.head == head


def test_a_ledger_may_be_given_by_its_path(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger(path).open_account("data", epsilon=3.0, delta=1e-5)
    made("PrivateMoments", ledger=str(path), dataset="data").fit(X)
    made("PrivateMoments", ledger=path, dataset="data").fit(X)
    private_vocabulary(["moon"] * 50, epsilon=0.5, delta=1e-5, ledger=path, dataset="data")
    assert len(Ledger(path).history("data")) == 3
    with pytest.raises(tacit.TacitError, match="missing"):
        made("PrivateMoments", ledger=tmp_path / "missing.db", dataset="data").fit(X)
    assert not (tmp_path / "missing.db").exists()


def test_a_vocabulary_names_its_account_by_the_texts(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    texts = ["the moon and a star"] * 300 + ["café"]
    account = tacit.fingerprint(tuple(np.array(text) for text in texts))
    ledger.open_account(account, epsilon=2.0, delta=1e-6)
    found = private_vocabulary(texts, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert found.terms == ("moon", "star")
    assert ledger.remaining(account).spent == pytest.approx(1.0, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIVATE)
def test_what_no_file_can_hold_is_refused_before_the_charge(name, tmp_path):
    """A fraction is a number, so a fit takes it; JSON has no form for it, so `save` would not."""
    ledger = Ledger(tmp_path / "ledger.db")
    head = ledger.head
    model = made(name, delta=Fraction(1, 1000), ledger=ledger, dataset="data")
    with pytest.raises(InvalidInputError, match="so that the model can be saved"):
        model.fit(*CASES[name].data)
    assert ledger.head == head


def labelled():
    import pandas as pd

    names = [*LABELS]
    kinds = {
        "list": list(map(str, names)),
        "array": LABELS,
        "objects": np.array(names, dtype=object),
        "strings": np.array(names, dtype=np.dtypes.StringDType()),
        "series": pd.Series(names),
        "categories": pd.Series(names).astype("category"),
    }
    return [pytest.param(labels, id=kind) for kind, labels in kinds.items()]


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
@pytest.mark.parametrize("labels", labelled())
def test_labels_of_every_kind_can_be_saved(labels, tmp_path):
    model = made("PrivateBayesianClassifier").fit(X, labels)
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model")
    assert list(again.predict(X)) == list(model.predict(X))
    assert set(again.predict(X)) <= {"above", "below"}


def test_item_ids_that_no_file_can_hold_are_refused_before_the_charge(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("data", epsilon=2.0, delta=1e-6, unit="user")
    head = ledger.head
    model = ESTIMATORS["PrivateRecommender"].load_class()(2, ledger=ledger, dataset="data")
    with pytest.raises(InvalidInputError, match="item_ids_"):
        model.fit([1, 2], [b"bytes", 7], [3, 4])
    assert ledger.head == head


@pytest.mark.parametrize("order", [lambda ids: ids, lambda ids: ids[::-1]])
@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([*map(np.str_, ("cat", "ant", "bee"))], ["ant", "bee", "cat"]),
        (["b", 2, "a", 1.5, True, 1], [1, 1.5, 2, "a", "b"]),
        ([1, 1.0, np.int32(1), np.float32(3), "x"], [1, 3, "x"]),
        ([("b", 1), "z", ("a", 2), 5], [5, "z", ("a", 2), ("b", 1)]),
    ],
)
def test_the_order_of_item_ids_does_not_depend_on_the_data(ids, expected, order):
    listed = order(ids)
    model = ESTIMATORS["PrivateRecommender"].load_class()(1, epsilon=5.0)
    model.fit(list(range(len(listed))), listed, [3.0] * len(listed))
    assert list(model.item_ids_) == expected
    assert [type(one) for one in model.item_ids_ if isinstance(one, int | float)] == [
        type(one) for one in expected if isinstance(one, int | float)
    ]
    assert "no catalogue was given" in str(model.guarantee_)

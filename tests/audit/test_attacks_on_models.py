"""Attacks on what is released: they find members and presence where there is no noise, and say so where they cannot."""

import math
import sys

import numpy as np
import polars as pl
import pytest
from subjects import FULL_BATCH, IMAGES, TABLES, relation

from tacit import PrivateCoupledFactorization, PrivateMoments, PrivateNMF, PrivateRatingNMF, PrivateSVD, PrivateTable
from tacit.audit import audit
from tacit.audit.attributes import _altered, attribute_inference
from tacit.audit.canaries import candidate_pairs
from tacit.audit.journal import AuditJournal
from tacit.audit.membership import WEAK, guessed, membership, shadow_fits
from tacit.audit.one_run import one_run
from tacit.audit.presence import learned_scores, many_runs, presence, presence_finding
from tacit.audit.replay import replay
from tacit.audit.subject import Subject
from tacit.audit.units import units_of
from tacit.data import DateColumn, IntegerColumn, TableSchema
from tacit.privacy.fingerprint import fingerprint

BY_NAME = {model.name: model for model in [*FULL_BATCH, *TABLES]}


def known(unit):
    return fingerprint(tuple(part for part in unit if part is not None))


def subject_of(model, data):
    return Subject.of(model, units_of(model, data), seed=1)


@pytest.mark.slow
def test_members_are_found_without_noise_and_not_with_it():
    found = membership(subject_of(PrivateSVD(2, epsilon=1.0, row_norm=2.0), IMAGES), fits=16, targets=16)
    assert found.figures["area without noise"] > 0.8
    assert found.figures["found at 1% false alarms, without noise"] > 0.02
    assert found.figures["area under the ROC curve"] < 0.65
    assert not found.violation
    assert "finds members in fits without noise" in found.remark


@pytest.mark.slow
def test_an_attack_that_is_too_weak_says_so(monkeypatch):
    """Scores that know nothing of the model find nothing anywhere, which must not read as a result about the model."""
    random = np.random.default_rng(0)
    monkeypatch.setattr(
        "tacit.audit.membership.unit_scores", lambda model, data, units: random.normal(size=(len(units), 2))
    )
    found = membership(subject_of(PrivateMoments(epsilon=1.0, row_norm=2.0), IMAGES), fits=16, targets=20)
    assert found.figures["too weak"]
    assert "too weak" in found.remark


def test_guesses_learn_from_other_fits_than_those_they_are_made_on():
    random = np.random.default_rng(0)
    present = random.random((40, 20)) < 0.5
    noise = random.normal(size=(40, 20, 3))
    assert abs(guessed(noise, present).area - 0.5) < 0.1
    assert guessed(noise + 3 * present[:, :, None], present).area > 0.98


@pytest.mark.slow
def test_one_run_finds_a_crowd_of_canaries():
    random = np.random.default_rng(0)
    rows = random.normal(size=(50, 60)) / 8
    found = one_run(subject_of(PrivateMoments(epsilon=40.0), rows), canaries=400)
    assert 2.0 < found.epsilon < 40.0
    assert not found.violation
    honest = one_run(subject_of(PrivateMoments(epsilon=0.2), rows), canaries=400)
    assert honest.epsilon < 0.2


def test_a_continued_attack_throws_no_coin_twice(tmp_path):
    subject = BY_NAME["moments"].subject()
    units = [subject.data.unit(place) for place in range(20)]
    settings = {"seconds": math.inf, "random_state": 3, "key": "fits"}
    whole = shadow_fits(subject, units, fits=6, journal=None, **settings)[1]
    shadow_fits(subject, units, fits=3, journal=AuditJournal(tmp_path / "journal.jsonl"), **settings)
    continued = shadow_fits(subject, units, fits=6, journal=AuditJournal(tmp_path / "journal.jsonl"), **settings)[1]
    assert np.array_equal(continued, whole)
    assert len(np.unique(continued, axis=0)) == 6


def test_a_continued_measurement_of_presence_draws_no_database_twice(tmp_path, monkeypatch):
    subject = BY_NAME["moments"].subject()
    assert subject.fingerprint
    drawn = []
    monkeypatch.setattr(Subject, "fitted", lambda self, data: drawn.append(data.digest()))
    monkeypatch.setattr("tacit.audit.presence.released_numbers", lambda model: np.zeros(1))
    for samples in (4, 8):
        journal = AuditJournal(tmp_path / "journal.jsonl")
        presence(subject, [("one", subject.data.unit(0))], samples=samples, journal=journal)
    assert len(drawn) == len(set(drawn)) == 16


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moments", "recommender", "implicit", "coupled, cells", "coupled, users", "table"])
def test_a_database_without_a_unit_does_not_have_it(name, monkeypatch):
    """Units of the data are taken out first; cells that were there twice stopped the measurement of coupled models."""
    model, drawn = BY_NAME[name], []
    whole = Subject.of(model.estimator, units_of(model.estimator, model.data), seed=1)
    module = sys.modules["tacit.audit.audit"]
    monkeypatch.setattr(module, "presence_finding", lambda *given, **_: drawn.append(given))
    audit(model.estimator, model.data, attacks=("presence",), bugs=False, insecure_seed=1)
    rest, units = drawn[0]
    kept = {known(rest.data.unit(place)) for place in range(rest.data.count)}
    assert rest.data.count == whole.data.count - len(units) == whole.data.count - 3
    everything = [known(whole.data.unit(place)) for place in range(whole.data.count)]
    unique = [unit for _, unit in units if everything.count(known(unit)) == 1]
    assert not kept & {known(unit) for unit in unique}
    found = presence_finding(rest, units[:1], samples=50, seconds=0.0)
    assert found.remark.startswith("With 16 runs each way on ")  # those that were made, not those that were asked for


def test_models_without_a_crowd_are_left_out():
    assert one_run(BY_NAME["recommender"].subject()) is None
    assert one_run(BY_NAME["table"].subject()) is None


@pytest.mark.slow
def test_the_published_start_is_recognised_by_what_is_released():
    """The NNDSVD of the private rows, without noise: a row that is not clipped determines the dictionary."""
    subject = subject_of(PrivateNMF(2, method="published", rounds=2, epsilon=1.0), IMAGES)
    pair = candidate_pairs(subject.estimator, subject.data)[0]
    found = many_runs(subject, pair, runs=960)
    assert found.figures["area under the ROC curve"] > 0.95
    assert found.epsilon > 1.0
    assert "published algorithm" in found.violation


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rating nmf", "coupled"])
def test_presence_is_measured_for_models_that_ksdp_refused(name):
    if name == "coupled":
        subject = subject_of(PrivateCoupledFactorization({"r": 1}, epsilon=math.inf, value_range=(-1, 1)), relation())
    else:
        model = BY_NAME["rating nmf"]
        settings = {**model.estimator.get_params(deep=False), "epsilon": math.inf}
        subject = subject_of(PrivateRatingNMF(**settings), model.data)
    _, unit = next(iter(_named(subject)))
    found = presence(subject, [("a canary", unit)], samples=16, size=subject.data.count // 2)
    assert found.p_values.shape == (1, 1)
    assert 0 <= found.corrected[0] <= 1
    assert "measurement, not a privacy guarantee" in str(found.guarantee)


def _named(subject):
    from tacit.audit.canaries import _canaries

    return _canaries(subject.estimator, subject.data)


def test_the_learned_statistic_is_tested_on_other_runs():
    random = np.random.default_rng(0)
    present = np.arange(200) % 2 == 0
    meaningless = random.normal(size=(200, 150))
    scores, truth = learned_scores(meaningless, present)
    assert len(scores) == 100
    assert abs(scores[truth].mean() - scores[~truth].mean()) < 1.0
    scores, truth = learned_scores(meaningless + 2 * present[:, None], present)
    assert scores[truth].min() > scores[~truth].max()


@pytest.mark.slow
def test_values_are_guessed_and_compared_with_units_outside_the_fit():
    found = attribute_inference(subject_of(PrivateMoments(epsilon=1.0, row_norm=2.0), IMAGES), fits=8, targets=12)
    assert 0 <= found.figures["guessed right, in the fit, private"] <= 1
    assert found.figures["p-value, private"] > 0.0001


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pcr", "implicit", "rating nmf", "coupled, cells", "table, replace-one", "table of persons"]
)
def test_one_value_is_guessed_in_every_kind_of_data(name):
    found = attribute_inference(BY_NAME[name].subject(), fits=4, targets=6)
    assert 0 <= found.figures["guessed right, in the fit, without noise"] <= 1


@pytest.mark.parametrize(
    "name", ["pcr", "implicit", "rating nmf", "coupled, cells", "table, replace-one", "table of persons"]
)
def test_a_decoy_differs_from_its_unit(name):
    data = BY_NAME[name].subject().data
    units = [data.unit(place) for place in range(6)]
    for place, unit in enumerate(units):
        decoy = _altered(data, units, place, np.random.default_rng(place))
        assert known(decoy) != known(unit)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pcr", "coupled, cells", "table of persons"])
def test_members_show_without_noise_in_labelled_coupled_and_table_models(name):
    found = membership(BY_NAME[name].subject(), fits=24, targets=12)
    assert found.figures["area without noise"] > WEAK


@pytest.mark.slow
def test_a_table_with_dates_and_left_out_columns_is_attacked():
    start = np.datetime64("2024-01-01") + np.arange(40)
    frame = pl.DataFrame({"name": [f"n{i}" for i in range(40)], "day": start, "size": np.arange(40) % 7})
    columns = {"day": DateColumn("2024-01-01", "2024-12-31"), "size": IntegerColumn(0, 9)}
    model = PrivateTable(epsilon=2.0, schema=TableSchema(columns, left_out=("name",)))
    found = membership(subject_of(model, frame), fits=8, targets=6)
    assert 0 <= found.figures["area without noise"] <= 1


def test_a_frame_of_pandas_is_audited_like_one_of_polars():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [20, 30, 40], "sex": ["f", "m", "f"]})
    assert units_of(PrivateMoments(epsilon=1.0), frame).X["age"].to_list() == [20, 30, 40]


def test_persons_are_taken_and_added_with_all_their_rows():
    data = BY_NAME["table of persons"].subject().data
    assert (data.count, len(data.X)) == (40, 80)
    few = data.take(np.array([3, 0]))
    assert (few.count, len(few.X), sorted(few.X["person"].unique())) == (2, 4, [0, 1])
    assert few.X["age"][0] == data.unit(3)[0]["age"][0]
    more = few.added(data.unit(5))
    assert (more.count, len(more.unit(2)[0])) == (3, 2)
    pair = candidate_pairs(BY_NAME["table of persons"].estimator, data)[0]
    assert len(pair.present.data.X) == 82


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recommender", "coupled, cells", "table, replace-one", "table of persons"])
def test_random_units_of_every_kind_are_replayed(name):
    found = replay(BY_NAME[name].subject(), [], random_units=2)
    assert (found.figures["checked"], found.violation) == (2, "")

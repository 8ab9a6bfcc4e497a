"""Private moments: right without noise, right in the limit, and careful with input."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit import Ledger, PrivateMoments
from tacit.errors import BudgetError, InvalidInputError, PrivacyWarning
from tacit.estimators.input import clip_rows, row_norms
from tacit.factor.noisy_moments.symmetric import nearest_semidefinite, pack, unpack

X = np.random.default_rng(0).dirichlet(np.ones(4), size=800)
INF = float("inf")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix, np.asfortranarray])
def test_without_noise_the_moments_are_the_moments(form):
    model = PrivateMoments(epsilon=INF).fit(form(X))
    assert model.count_ == len(X)
    assert np.allclose(model.mean_, X.mean(axis=0))
    assert np.allclose(model.second_moment_, X.T @ X / len(X))
    assert "in the clear" in str(model.guarantee_)


def test_noise_is_unbiased_and_shrinks_with_epsilon():
    """Over 60 fits the average mean is within 5 standard errors of the truth, and epsilon 8 errs less than epsilon 1."""
    spread = {}
    for epsilon in (1.0, 8.0):
        fits = np.array([PrivateMoments(epsilon=epsilon, insecure_seed=s).fit(X).mean_ for s in range(60)])
        errors = fits - X.mean(axis=0)
        assert np.all(np.abs(errors.mean(axis=0)) < 5 * fits.std(axis=0) / np.sqrt(60))
        spread[epsilon] = np.abs(errors).mean()
    assert spread[8.0] < spread[1.0] / 3


def test_the_guarantee_is_the_target():
    model = PrivateMoments(epsilon=0.7, delta=1e-7).fit(X)
    assert 0.6999 < model.guarantee_.epsilon <= 0.7
    assert model.guarantee_.delta == 1e-7
    assert model.guarantee_.unit == "row"
    assert len(model.guarantee_.releases) == 1


def test_second_moment_is_symmetric_and_semidefinite_however_noisy():
    noisy = PrivateMoments(epsilon=0.01, delta=1e-6).fit(X[:20]).second_moment_
    assert np.array_equal(noisy, noisy.T) or np.allclose(noisy, noisy.T)
    assert np.linalg.eigvalsh(noisy).min() > -1e-9


def test_rows_are_clipped_each_by_itself():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    for form in (np.asarray, sparse.csr_array):
        clipped = clip_rows(form(rows), 1.0)
        dense = clipped if isinstance(clipped, np.ndarray) else clipped.toarray()
        assert np.allclose(dense, [[0.6, 0.8], [0.3, 0.4], [0, 0]])
        assert np.allclose(row_norms(form(rows)), [5, 0.5, 0])
    assert rows[0, 0] == 3.0  # the caller's data is left alone


def test_small_integers_do_not_overflow_into_short_rows():
    rows = np.full((2, 3), 200, dtype=np.uint8)
    assert np.allclose(row_norms(sparse.csr_array(rows)), 200 * np.sqrt(3))
    assert np.allclose(row_norms(rows), 200 * np.sqrt(3))
    assert np.allclose(clip_rows(sparse.csr_array(rows), 1.0).toarray(), 1 / np.sqrt(3))


def test_packing_keeps_the_norm_and_comes_back():
    square = np.random.default_rng(3).normal(size=(5, 5))
    square = square + square.T
    assert pack(square).shape == (15,)
    assert np.linalg.norm(pack(square)) == pytest.approx(np.linalg.norm(square))
    assert np.allclose(unpack(pack(square), 5), square)


def test_nearest_semidefinite_only_removes_negative_directions():
    square = np.diag([2.0, -1.0, 0.5])
    assert np.allclose(nearest_semidefinite(square), np.diag([2.0, 0.0, 0.5]))


def test_passes_scikit_learns_checks():
    check_estimator(PrivateMoments(epsilon=1.0))
    check_estimator(PrivateMoments(epsilon=INF))


def test_a_ledger_is_charged_and_refuses(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("patients", 1.4, 1e-6)  # two fits compose to 1.46, less than their sum
    model = PrivateMoments(epsilon=1.0, delta=1e-6, ledger=ledger, dataset="patients").fit(X)
    spent = ledger.remaining("patients").spent
    assert spent == pytest.approx(1.0, rel=1e-3)
    assert spent >= model.guarantee_.epsilon * (1 - 1e-9)
    with pytest.raises(BudgetError):
        model.fit(X)
    assert ledger.remaining("patients").spent == spent
    assert ledger.verify() > 0


def test_a_data_set_is_found_by_its_content(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account(tacit.fingerprint(X), 2.0, 1e-6)
    PrivateMoments(ledger=ledger).fit(X)
    assert len(ledger.history(tacit.fingerprint(X))) == 1


def test_a_data_frame_is_found_by_its_own_content(tmp_path):
    import polars

    frame = polars.DataFrame(X, schema=list("abcd"))
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account(tacit.fingerprint(frame), 2.0, 1e-6)
    model = PrivateMoments(ledger=ledger).fit(frame)
    assert len(ledger.history(tacit.fingerprint(frame))) == 1
    assert list(model.feature_names_in_) == list("abcd")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_rows_cost_nothing(tmp_path, bad):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("patients", 1.5, 1e-6)
    broken = X.copy()
    broken[3, 1] = bad
    with pytest.raises(InvalidInputError, match="nothing was charged"):
        PrivateMoments(ledger=ledger, dataset="patients").fit(broken)
    assert ledger.history("patients") == []


def test_refitting_without_a_ledger_says_that_it_is_a_second_release():
    model = PrivateMoments().fit(X)
    with pytest.warns(PrivacyWarning, match="second release"):
        model.fit(X)


@pytest.mark.parametrize(
    "settings", [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": np.nan}, {"delta": 0}, {"row_norm": 0}, {"max_units": 10}]
)
def test_bad_parameters(settings):
    with pytest.raises(InvalidInputError):
        PrivateMoments(**settings).fit(X)


def test_save_and_load_keep_what_may_be_released_and_no_more(tmp_path):
    model = PrivateMoments(epsilon=1.0, ledger=None).fit(X)
    model.secret_ = X
    model.save(tmp_path / "model.tacit")
    again = tacit.load(tmp_path / "model.tacit")
    assert np.array_equal(again.second_moment_, model.second_moment_)
    assert again.count_ == model.count_
    assert again.guarantee_ == model.guarantee_
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "secret_")


def test_files_that_are_not_models_are_refused(tmp_path):
    for name, content in [("text", b"hello"), ("empty", b""), ("zip", b"PK\x03\x04broken")]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInputError, match="save"):
            tacit.load(tmp_path / name)
    with pytest.raises(InvalidInputError, match="no such file"):
        tacit.load(tmp_path / "missing")
    with pytest.raises(InvalidInputError, match="fitted"):
        PrivateMoments().save(tmp_path / "m")
    np.savez(tmp_path / "other.npz", **{"model.json": np.frombuffer(b'{"class": "os.system", "arrays": []}', np.uint8)})
    with pytest.raises(InvalidInputError, match="version"):
        tacit.load(tmp_path / "other.npz")


def test_a_model_file_with_a_flattering_epsilon_is_refused(tmp_path):
    """The guarantee is computed again from the recorded releases; editing the number does not help."""
    import json

    model = PrivateMoments(epsilon=1.0).fit(X)
    model.save(tmp_path / "model.tacit")
    with np.load(tmp_path / "model.tacit") as archive:
        content = dict(archive)
    header = json.loads(content["model.json"].tobytes())
    header["guarantee"]["epsilon"] = 0.1
    content["model.json"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with (tmp_path / "forged.tacit").open("wb") as file:
        np.savez(file, **content)
    with pytest.raises(InvalidInputError, match="recorded releases give"):
        tacit.load(tmp_path / "forged.tacit")

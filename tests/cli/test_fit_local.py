"""`tacit fit local`, as sites run it."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from test_cli import invoke

import tacit
from tacit.data import split
from tacit.errors import InvalidInputError
from tacit.factor.coupled.local.estimator import LocalCountFactorization
from tacit.factor.coupled.local.noise import LocallyPrivateCounts, NoisyCounts
from tacit.privacy import Ledger, fingerprint
from tacit.report import fit_local_counts

RNG = np.random.default_rng(3)
SHARED = RNG.gamma(0.5, 2.0, (10, 2))
SITES = [RNG.poisson(RNG.gamma(0.5, 4.0, (30, 2)) @ SHARED.T) for _ in range(2)]
QUICK = ("--rank", 2, "--sweeps", 30, "--json")


@pytest.fixture
def site(tmp_path):
    np.save(tmp_path / "counts.npy", SITES[0])
    return tmp_path


@pytest.mark.slow
def test_sites_release_views_and_fit_them_together(site):
    np.save(site / "other.npy", SITES[1])
    assert invoke("fit", "local", site / "other.npy", *QUICK, "--epsilon", 2, "--output", site / "b").exit_code == 0
    ledger = Ledger(site / "ledger.db", create=True)
    ledger.open_account("counts", 3.0, 1e-9, unit="cell", adjacency="replace-one")
    spending = ("--ledger", site / "ledger.db", "--dataset", "counts")
    arguments = ("--epsilon", 2, "--view", site / "b" / "model" / "view.npz", "--frontier", *spending)
    found = invoke("fit", "local", site / "counts.npy", *QUICK, *arguments, "--output", site / "a")
    assert found.exit_code == 0, found.exception
    result = json.loads((site / "a" / "result.json").read_text())
    assert result["guarantee"]["epsilon"] == pytest.approx(2.0)
    assert set(result["held_out"]) == {
        "from noisy counts", "noisy counts taken for true ones", "without privacy", "constant"
    }  # fmt: skip
    assert "0.3" in result["frontier_on_synthetic_counts"]
    assert len(ledger.history("counts")) == 1
    view = NoisyCounts.load(site / "a" / "model" / "view.npz")
    assert view.shape == SITES[0].shape
    assert 0.8 * SITES[0].size < len(view.values) < SITES[0].size  # about a tenth is held out
    model = tacit.load(site / "a" / "model" / "local.tacit")
    assert model.predict(1).shape == SITES[1].shape
    # LDP2: the own counts without noise
    alone = invoke("fit", "local", site / "counts.npy", *QUICK, *arguments[2:4], "--output", site / "own")
    assert alone.exit_code == 0, alone.exception
    assert json.loads(alone.stdout)["guarantee"]["kind"] == "none"
    assert not (site / "own" / "model" / "view.npz").exists()


@pytest.mark.slow
def test_every_byte_that_leaves_follows_from_the_noisy_counts(site, monkeypatch):
    """One cell is changed; the noise is such that the noisy counts are the same, and so must be all files of model/."""
    monkeypatch.setattr(split, "new_key", lambda: bytes(32))
    first, released = [], {}
    privatise = LocallyPrivateCounts.privatise

    def replayed(self, counts, **more):
        view = privatise(self, counts, **more)
        first.append(view)
        return NoisyCounts(first[0].values, view.scale, view.observed, view.guarantee, view.cells, view.shape)

    monkeypatch.setattr(LocallyPrivateCounts, "privatise", replayed)
    for change in (0, 1):
        counts = SITES[0].copy()
        counts[0, 0] += change
        np.save(site / "counts.npy", counts)
        out = site / str(change)
        assert invoke("fit", "local", site / "counts.npy", *QUICK, "--epsilon", 1, "--output", out).exit_code == 0
        released[change] = {path.name: path.read_bytes() for path in (out / "model").iterdir()}
    assert set(released[0]) == {"local.tacit", "view.npz"}
    assert released[0] == released[1]


@pytest.mark.parametrize(
    ("counts", "options", "points_at"),
    [
        (SITES[0] - 1000, (), "between 0 and"),
        (SITES[0] + 0.5, (), "whole numbers"),
        (SITES[0], ("--stored",), "sparse"),
        (SITES[0], ("--delta-max", 0), "delta_max"),
        (SITES[0], ("--view", "nowhere.npz"), "noisy counts"),
        (SITES[0], ("--epsilon", 0), "epsilon"),
        (SITES[0], ("--epsilon", 1e-14), "scale"),
        (SITES[0], ("--epsilon", 300), "scale"),
        (SITES[0][0], (), "two axes"),
    ],
)
def test_bad_input_charges_nothing(site, counts, options, points_at):
    np.save(site / "counts.npy", counts)
    ledger = Ledger(site / "ledger.db", create=True)
    ledger.open_account("counts", 3.0, 1e-9, unit="cell", adjacency="replace-one")
    given = () if "--epsilon" in options else ("--epsilon", 1)
    spending = (*given, "--ledger", site / "ledger.db", "--dataset", "counts")
    arguments = ("--rank", 2, "--sweeps", 4, *spending, *options, "--output", site / "never")
    found = invoke("fit", "local", site / "counts.npy", *arguments).exception
    assert isinstance(found, InvalidInputError)
    assert points_at in str(found)
    assert ledger.history("counts") == []
    assert not (site / "never").exists()


@pytest.mark.slow
def test_sparse_counts_are_read_with_their_zeros_unless_their_places_are_public(site):
    counts = sparse.csr_matrix(RNG.poisson(0.4, (20, 12)))
    sparse.save_npz(site / "counts.npz", counts)
    for options, size in (((), 240), (("--stored",), counts.nnz)):
        out = site / f"out{len(options)}"
        arguments = (*QUICK, "--epsilon", 1, "--held-out", 0, *options, "--output", out)
        assert invoke("fit", "local", site / "counts.npz", *arguments).exit_code == 0
        assert len(NoisyCounts.load(out / "model" / "view.npz").values) == size


def test_a_command_that_is_stopped_has_the_noisy_counts_that_were_paid_for(site, monkeypatch):
    ledger = Ledger(site / "ledger.db", create=True)
    ledger.open_account("counts", 3.0, 1e-9, unit="cell", adjacency="replace-one")
    spending = ("--epsilon", 2, "--ledger", site / "ledger.db", "--dataset", "counts")
    fit = LocalCountFactorization.fit

    def stopped(self, tables, **more):
        if isinstance(tables[0], NoisyCounts):
            raise KeyboardInterrupt
        return fit(self, tables, **more)

    arguments = ("fit", "local", site / "counts.npy", *QUICK, *spending, "--output", site / "out")
    with monkeypatch.context() as patch:
        patch.setattr(LocalCountFactorization, "fit", stopped)
        assert invoke(*arguments).exit_code != 0
    assert len(ledger.history("counts")) == 1
    assert NoisyCounts.load(site / "out" / "model" / "view.npz").guarantee.epsilon == pytest.approx(2.0)
    assert [path.name for path in (site / "out" / "model").iterdir()] == ["view.npz"]
    plain = invoke("fit", "local", site / "counts.npy", *QUICK, "--epsilon", 2, "--output", site / "other")
    assert plain.exit_code == 0, plain.exception
    assert sorted(path.name for path in (site / "other").iterdir()) == ["model", "report.html", "result.json"]


def test_the_account_of_counts_is_that_of_all_of_them():
    ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.db")
    name = fingerprint(SITES[0])
    ledger.open_account(name, 9.0, 1e-9, unit="cell", adjacency="replace-one")
    LocallyPrivateCounts(1.0, ledger=ledger).privatise(SITES[0])
    fit_local_counts(SITES[0], 2, epsilon=1.0, ledger=ledger, sweeps=4, burn_in=2)
    assert len(ledger.history(name)) == 2


def test_a_model_of_several_views_assumes_that_no_cell_is_in_two():
    views = [LocallyPrivateCounts(epsilon).privatise(SITES[0]) for epsilon in (1.0, 2.0)]
    model = LocalCountFactorization(2, sweeps=4, burn_in=2).fit(views)
    assert model.guarantee_.epsilon == pytest.approx(2.0)
    assert any("no cell is in two" in one for one in model.guarantee_.assumptions)
    alone = LocalCountFactorization(2, sweeps=4, burn_in=2).fit(views[:1])
    assert alone.guarantee_.assumptions == views[0].guarantee.assumptions

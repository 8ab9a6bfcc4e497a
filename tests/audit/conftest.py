"""Post-processing is shortened: it costs time and no attack of these tests sees it."""

import pytest


@pytest.fixture(autouse=True)
def _few_synthetic_rows(monkeypatch):
    monkeypatch.setattr("tacit.factor.nmf.private.SYNTHETIC_ROWS", 200)
    monkeypatch.setattr("tacit.synthetic.pairwise.SWEEPS", 15)
    monkeypatch.setattr("tacit.synthetic.pairwise.LEAST_CHAINS", 300)
    monkeypatch.setattr("tacit.synthetic.pairwise.CHAINS", 300)

"""Post-processing is shortened: it costs time and no attack of these tests sees it."""

import pytest


@pytest.fixture(autouse=True)
def _few_synthetic_rows(monkeypatch):
    monkeypatch.setattr("tacit.factor.nmf.private.SYNTHETIC_ROWS", 200)
    monkeypatch.setattr("tacit.synthetic.pairwise.SWEEPS", 15)
    monkeypatch.setattr("tacit.synthetic.pairwise.LEAST_CHAINS", 300)
    monkeypatch.setattr("tacit.synthetic.pairwise.CHAINS", 300)
    # every fit of a network tries its engines out on made-up rows, which the tests of the engines do too
    monkeypatch.setattr("tacit.neural.trial._agrees", lambda *arguments, **settings: True)

"""Without `dataset`, the functions behind the commands charge the account that all data name, whatever part they fit."""

import numpy as np
import polars as pl
import pytest

from tacit import Relation, report
from tacit.data import make_ratings
from tacit.errors import LedgerError
from tacit.privacy import Ledger, fingerprint

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
RANDOM = np.random.default_rng(2)
X, Y = RANDOM.random((80, 3)), RANDOM.random(80)
MADE = make_ratings(60, 8, ratings_per_user=4, random_state=1)
RATINGS = pl.DataFrame({"user": MADE.users, "item": MADE.items, "rating": MADE.ratings})
CLICKS, ITEMS = RATINGS.drop("rating"), list(range(8))
CELLS = np.stack([MADE.users, MADE.items], axis=1)
RELATION = Relation(
    (CELLS, MADE.ratings, (60, 8)), "ir,jr->ij", ("user", "film"), observed="stored", divergence="euclid"
)


def compare_networks(**settings):
    pytest.importorskip("torch", reason="torch is not installed")
    return report.compare_networks(
        X, Y > 0.5, classes=(False, True), epochs=1, hidden=(), feature_range=(0, 1), **settings
    )


FITS = {
    "compare_nmf": (X, "row", lambda **settings: report.compare_nmf(X, 2, **settings)),
    "fit_components": (X, "row", lambda **settings: report.fit_components(X, 2, row_norm=2.0, **settings)),
    "fit_regression": (
        (X, Y),
        "row",
        lambda **settings: report.fit_regression(X, Y, 2, row_norm=2.0, target_range=(0, 1), **settings),
    ),
    "compare_networks": (X, "row", compare_networks),
    "compare_recommenders": (
        RATINGS,
        "user",
        lambda **settings: report.compare_recommenders(RATINGS, 2, catalogue=ITEMS, **settings),
    ),
    "compare_implicit": (
        CLICKS,
        "user",
        lambda **settings: report.compare_implicit(CLICKS, catalogue=ITEMS, **settings),
    ),
    "compare_private_coupled": (
        RELATION.known_cells(),
        "user",
        lambda **settings: report.compare_private_coupled([RELATION], 2, value_range=(1, 5), **settings),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_all_data_name_the_account_although_a_part_is_held_out(name, tmp_path):
    """The part is another one each time, and would be another account."""
    data, unit, fit = FITS[name]
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match=fingerprint(data)):
        fit(epsilon=2.0, ledger=ledger)
    ledger.open_account(fingerprint(data), 100.0, 1e-5, unit=unit)
    for _ in range(2):
        fit(epsilon=2.0, ledger=ledger)
    assert len(ledger.history(fingerprint(data))) == 2

"""`tacit tables sample`: what it says about the rows that it draws."""

import numpy as np
import polars as pl
import pytest
from test_cli import invoke

from tacit import PrivateTable
from tacit.data import NumberColumn, TableSchema


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("settings", "said"), [({}, "may be passed on"), ({"insecure_seed": 1}, "stay with the holder")]
)
def test_rows_of_a_table_without_a_guarantee_stay_with_the_holder(settings, said, tmp_path):
    rows = pl.DataFrame(np.random.default_rng(0).random((200, 2)), schema=["a", "b"])
    schema = TableSchema({name: NumberColumn(0, 1) for name in rows.columns})
    PrivateTable(schema=schema, epsilon=4.0, **settings).fit(rows).save(tmp_path / "table.tacit")
    found = invoke("tables", "sample", tmp_path / "table.tacit", "--rows", 5, "--output", tmp_path / "rows.csv")
    assert found.exit_code == 0, found.exception
    assert said in found.stdout

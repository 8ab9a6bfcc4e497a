"""Records of columns of any kind, which parties bring to a job for a synthetic table."""

from __future__ import annotations

import polars as pl
import pytest
from typer.testing import CliRunner

from tacit import PrivateTable
from tacit.cli.main import app
from tacit.data import CategoryColumn, IntegerColumn, NumberColumn, TableSchema
from tacit.errors import InvalidInputError
from tacit.parties import Identity
from tacit.parties.consent import review
from tacit.parties.job import Job
from tacit.parties.local import local_job
from tacit.parties.models import check_job, estimator_of, read_party_data, record_columns

SCHEMA = TableSchema(
    {"sex": CategoryColumn(("f", "m")), "age in years": IntegerColumn(0, 120), "dose": NumberColumn(0, 5, decimals=1)},
    left_out=["name"],
)
ROWS = {"name": ["ann", "bob"], "dose": ["1.5", "2"], "sex": ["f", "m"], "age in years": ["31", "47"]}


@pytest.fixture(scope="module")
def identities():
    return [Identity.create(name) for name in ("hospital-a", "hospital-b")]


def job_of(identities, schema=SCHEMA, **settings):
    given = {"epsilon": 1.0, "schema": schema.to_dict(), **settings}
    columns = record_columns(schema, settings.get("unit_column"))
    return local_job(identities, "tables", given, columns, model="private-table")


def test_a_job_carries_the_schema_to_the_letter(identities):
    job = Job.parse(job_of(identities).text())
    estimator = estimator_of(job)
    assert estimator.schema.columns == SCHEMA.columns
    assert job.features == ["sex", "age in years", "dose"]
    check_job(job)


def test_a_schema_that_nobody_confirmed_is_refused(identities):
    draft = TableSchema(SCHEMA.columns, SCHEMA.left_out, public=False)
    with pytest.raises(InvalidInputError, match="confirmed"):
        check_job(job_of(identities, draft))


def test_columns_that_the_schema_does_not_have_are_refused(identities):
    given = {"epsilon": 1.0, "schema": SCHEMA.to_dict()}
    with pytest.raises(InvalidInputError, match="columns of the schema"):
        check_job(local_job(identities, "tables", given, ["sex", "dose"], model="private-table"))


def test_a_partys_file_may_have_columns_that_are_left_out_and_any_order(identities, tmp_path):
    pl.DataFrame(ROWS).write_csv(tmp_path / "rows.csv")
    read = read_party_data(tmp_path / "rows.csv", job_of(identities), "hospital-a")
    assert read.X.columns == ["sex", "age in years", "dose"]
    assert read.records == 2
    pl.DataFrame(ROWS).drop("dose").write_csv(tmp_path / "fewer.csv")
    with pytest.raises(InvalidInputError, match="dose"):
        read_party_data(tmp_path / "fewer.csv", job_of(identities), "hospital-a")


def test_a_cell_outside_the_schema_is_refused_before_anything_is_sent(identities, tmp_path):
    pl.DataFrame({**ROWS, "sex": ["f", "xylophone"]}).write_csv(tmp_path / "rows.csv")
    with pytest.raises(InvalidInputError, match="sex") as caught:
        read_party_data(tmp_path / "rows.csv", job_of(identities), "hospital-a")
    assert "xylophone" not in str(caught.value)


def test_the_review_names_both_sums(identities):
    job = job_of(identities, unit_column="person", max_rows_per_unit=2)
    shown = str(review(job, estimator_of(job), party="hospital-a"))
    assert "cells" in shown
    assert "pairs" in shown
    assert "epsilon 1" in shown


@pytest.mark.slow
def test_rows_are_drawn_from_a_saved_table(tmp_path):
    frame = pl.DataFrame(ROWS).drop("name")
    model = PrivateTable(epsilon=1.0, schema=TableSchema(SCHEMA.columns), insecure_seed=0)
    model.fit(pl.concat([frame] * 50)).save(tmp_path / "table.tacit")
    arguments = ["tables", "sample", str(tmp_path / "table.tacit"), "--rows", "7", "--given", "sex=f", "--seed", "1"]
    done = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "drawn.csv")])
    assert done.exit_code == 0, done.output
    drawn = pl.read_csv(tmp_path / "drawn.csv")
    assert drawn.shape == (7, 3)
    assert set(drawn["sex"]) == {"f"}
    assert drawn["age in years"].dtype == pl.Int64
    again = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "drawn.csv")])
    assert again.exit_code != 0  # nothing is replaced unasked

"""`tacit fit` with a pattern of files: on a cluster, charged to the named account; what needs all data at once is refused."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli.main import app
from tacit.errors import InvalidInputError
from tacit.privacy import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]


def tacit_command(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


def test_a_recommender_of_files_on_a_scheduler(client, ratings, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("stars", epsilon=10.0, delta=1e-4, unit="user")
    (tmp_path / "items.txt").write_text("\n".join(map(str, range(12))))
    found = tacit_command(
        *("fit", "recommend", tmp_path / "ratings*.parquet", "--epsilon", 5, "--catalogue", tmp_path / "items.txt"),
        *("--scheduler", client.scheduler.address, "--factors", 2, "--output", tmp_path / "out", "--json"),
        *("--ledger", tmp_path / "budget.db", "--dataset", "stars"),
    )
    values = json.loads(found.stdout)
    assert (values["partitions"], values["totals"]) == (3, 6)
    assert values["rounding_reserve"] == pytest.approx(2 * 2**40 * 2**-53)
    assert len(ledger.history("stars")) == 1
    model = tacit.load(tmp_path / "out" / "model" / "recommender.tacit")
    assert model.guarantee_.holds
    assert model.recommend_for([0, 1], [5.0, 1.0], n=3)


def test_components_of_one_large_file_in_blocks(client, tmp_path, images):
    pl.DataFrame(images[:, :3], schema=["a", "b", "c"]).write_parquet(tmp_path / "large file.parquet")
    (tmp_path / "ranges.csv").write_text("name,low,high\na,0,1\nb,0,1\nc,0,1\n")
    arguments = ("--feature-range", tmp_path / "ranges.csv", "--blocks", 3, "--resident", 1, "--epsilon", 5)
    found = tacit_command(
        *("fit", "pca", tmp_path / "large file.parquet", "-k", 2, *arguments),
        *("--scheduler", client.scheduler.address, "--output", tmp_path / "out"),
    )
    assert "of 3 partitions on" in found.stdout
    assert "reserve for rounding in the noise: 0.02%" in found.stdout
    assert tacit.load(tmp_path / "out" / "model" / "pca.tacit").components_.shape == (2, 3)


def test_what_needs_all_data_at_once_is_refused(tmp_path):
    np.save(tmp_path / "rows1.npy", np.ones((4, 3)))
    pattern, output = tmp_path / "rows*.npy", tmp_path / "out"
    for arguments, told in (
        (("nmf", pattern, "-k", "2-5"), "range of ranks"),
        (("nmf", pattern, "-k", "2", "--vocabulary", "paid", "--epsilon", 1), "--vocabulary paid"),
        (("pca", pattern, "-k", "2", "--unit-rows", "--epsilon", 1, "--frontier"), "--frontier"),
        (("recommend", pattern), "--epsilon and --catalogue"),
        (("nmf", pattern, "-k", "2", "--epsilon", 1, "--ledger", tmp_path / "no.db"), "--dataset with --ledger"),
        (("nmf", tmp_path / "none*.npy", "-k", "2"), "files with the partitions"),
        (("nmf", pattern, "-k", "2", "--scheduler", "nonsense"), "address of a scheduler"),
    ):
        with pytest.raises(InvalidInputError, match=told):
            tacit_command("fit", *arguments, "--output", output)
    assert not output.exists(), "nothing was computed"

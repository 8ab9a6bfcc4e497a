"""A cluster of two processes for all tests of this folder, and data in partitions."""

import numpy as np
import polars as pl
import pytest

from tacit.data import make_images, make_ratings

distributed = pytest.importorskip("distributed", reason="Dask is not installed")

IMAGES = make_images(300, side=6, n_parts=3).images
RATINGS = make_ratings(90, 12, ratings_per_user=6, random_state=1)
FRAME = pl.DataFrame({"user": RATINGS.users, "item": RATINGS.items, "rating": RATINGS.ratings}).sort("user")


@pytest.fixture(scope="package")
def client():
    settings = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, **settings) as cluster, distributed.Client(cluster) as made:
        yield made


@pytest.fixture
def rows(tmp_path):
    for place, part in enumerate(np.array_split(IMAGES, 5)):
        np.save(tmp_path / f"rows{place}.npy", part)
    return str(tmp_path / "rows*.npy")


@pytest.fixture
def ratings(tmp_path):
    paths = []
    for place in range(3):
        paths.append(tmp_path / f"ratings{place}.parquet")
        FRAME.filter(pl.col("user") % 3 == place).write_parquet(paths[-1])
    return paths


@pytest.fixture(scope="package")
def images():
    return IMAGES


@pytest.fixture(scope="package")
def frame():
    return FRAME

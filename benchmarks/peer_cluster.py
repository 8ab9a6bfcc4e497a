"""The peers of `bench_cluster.py`, in an environment of their own: Spark's ALS and dask-ml's truncated SVD."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path


def spark_als(folder: str, workers: str) -> None:
    """Fit ALS to the Parquet files of a folder, in local mode; print seconds and the memory of Spark's process."""
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    settings = {"spark.driver.memory": "6g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8"}
    builder = SparkSession.builder.master(f"local[{workers}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.range(1000).count()  # warm
    started = time.perf_counter()
    frame = session.read.parquet(folder).selectExpr("int(user) as user", "int(item) as item", "float(rating) as rating")
    ALS(rank=16, maxIter=10, regParam=0.1, userCol="user", itemCol="item", ratingCol="rating").fit(frame)
    taken = time.perf_counter() - started
    process = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 2**20
    session.stop()
    print(json.dumps({"seconds": round(taken, 1), "gigabytes": round(peak, 1)}))


def dask_svd(folder: str, workers: str) -> None:
    """Fit TruncatedSVD to the npy files of a folder; print seconds, the memory of all processes, and singular values."""
    import dask.array as da
    import numpy as np
    from dask_ml.decomposition import TruncatedSVD
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=int(workers), threads_per_worker=1, dashboard_address=None, silence_logs=50)
    with cluster, Client(cluster) as client:
        client.run(_warm)
        started, before = time.perf_counter(), sum(client.run(time.process_time).values()) + time.process_time()
        paths = sorted(Path(folder).glob("*.npy"))
        shapes = [np.load(path, mmap_mode="r").shape for path in paths]
        from dask import delayed

        parts = [
            da.from_delayed(delayed(np.load)(str(path)), shape=shape, dtype=float)
            for path, shape in zip(paths, shapes, strict=True)
        ]
        model = TruncatedSVD(8, algorithm="tsqr", compute=True).fit(da.concatenate(parts))
        taken = time.perf_counter() - started
        spent = sum(client.run(time.process_time).values()) + time.process_time() - before
        used = sum(client.run(_peak).values()) + _peak()
        values = np.sort(np.asarray(model.singular_values_))[::-1].tolist()
    print(json.dumps({"seconds": taken, "processor": spent, "gigabytes": round(used, 1), "values": values}))


def _warm() -> None:
    import numpy  # noqa: F401


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    {"spark_als": spark_als, "dask_svd": dask_svd}[sys.argv[1]](*sys.argv[2:])

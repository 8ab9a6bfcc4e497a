"""One holder's data on a cluster (Dask): partitions are fitted where they are, and only totals reach the driver.

May be imported by `report` and `cli`.
"""

from tacit.cluster.apply import predict_on, recommend_on, transform_on
from tacit.cluster.driver import Progress
from tacit.cluster.run import end_checkpoint, run_on

__all__ = ["Progress", "end_checkpoint", "predict_on", "recommend_on", "run_on", "transform_on"]

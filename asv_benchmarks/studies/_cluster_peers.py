"""The peers of ``_cluster.py``: dask-ml on the same workers, and Spark on the same machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

REG_LAMBDA = 1e-4  # of every fit
BLOCKS = 8  # of the rows


def rivals(loss: str, X: Any, y: Any, n: int) -> Iterator[tuple[str, Callable]]:
    """Pairs of a name and what makes the fit of a setting."""
    if loss == "log_loss":
        for solver in ("lbfgs", "admm"):
            yield f"dask-ml {solver}", lambda k, solver=solver: _dask_ml(solver, X, y, n, k)
    with _spark() as session:
        frame = _spark_frame(session, X, y)
        yield "Spark", lambda k: _spark_fit(loss, frame, k)


def _dask_ml(solver: str, X: Any, y: Any, n: int, k: int) -> Callable[[], tuple]:
    from dask_ml.linear_model import LogisticRegression

    X, labels = X.astype(np.float64), (y > 0.0).astype(int)

    def fit() -> tuple[np.ndarray, float]:
        model = LogisticRegression(
            C=1.0 / (n * REG_LAMBDA), solver=solver, max_iter=k, tol=1e-10, fit_intercept=True
        ).fit(X, labels)
        return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])

    return fit


@contextmanager
def _spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("sklearn_bundle")
    for name, value in (("spark.driver.memory", "6g"), ("spark.ui.enabled", "false")):
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _spark_frame(session: Any, X: Any, y: Any) -> Any:
    """Rows as Spark's vectors, in 8 partitions in memory."""
    import pandas as pd
    from pyspark.ml.feature import VectorAssembler

    names = [f"x{j}" for j in range(X.shape[1])]
    table = pd.DataFrame(X.compute().astype(np.float64), columns=names)
    table["label"] = (y.compute() > 0.0).astype(float)
    session.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    frame = session.createDataFrame(table).repartition(BLOCKS)
    frame = VectorAssembler(inputCols=names, outputCol="features").transform(frame)
    frame = frame.select("features", "label").cache()
    frame.count()
    return frame


def _spark_fit(loss: str, frame: Any, k: int) -> Callable[[], tuple]:
    from pyspark.ml.classification import LinearSVC, LogisticRegression

    kind = LinearSVC if loss == "hinge" else LogisticRegression
    machine = kind(regParam=REG_LAMBDA, maxIter=k, tol=1e-12, standardization=False)

    def fit() -> tuple[np.ndarray, float]:
        model = machine.fit(frame)
        return model.coefficients.toArray(), float(model.intercept)

    return fit

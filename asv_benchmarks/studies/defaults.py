"""Which loss and which reg_lambda to start with: test accuracy on fourteen sets.

python asv_benchmarks/studies/defaults.py --data FOLDER [--json FILE] [--sets NAME ...] [--seeds 1]
python asv_benchmarks/studies/defaults.py --show FILE ...  # the tables of earlier runs

Every set is cut to at most 3,000 rows for training and 3,000 for testing, drawn by a seed; the
tables have means over the seeds. Dense columns are standardized, sparse values are divided by the
largest one if that is above 1. Each model is fitted as it comes, at fixed values of reg_lambda, and
at the one that three-fold cross-validation on the training rows chooses. LogisticRegression is
fitted as it comes (C = 1) and after the same cross-validation, over C = 1 / (n reg_lambda),
LinearSVC as it comes alone: a search with it takes longer than everything else.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path
from statistics import mean

import numpy as np
import scipy.sparse as sp
from _measure import cpu_seconds, header, print_rst, quiet_single_thread, write_json
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, BMRMClassifierCV

ROWS = 3000
FOLDS = 3
VALUES = 1e-1, 1e-2, 1e-3, 1e-4, 1e-5
TWO_CLASS = "hinge", "squared_hinge", "log_loss"
JOINT = "softmax", "multiclass_hinge"
SHIPPED = {"breast_cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
# Of two classes: the labels that are +1. Of several: None.
SETS = {
    "breast_cancer": [1],
    "a9a": [1],
    "w8a": [1],
    "ijcnn1": [1],
    "phishing": [1],
    "covtype_20k": [2],
    "movie_reviews_counts": [1],
    "wine": None,
    "digits": None,
    "usps": None,
    "pendigits": None,
    "letter": None,
    "news20_bydate_counts": None,
    "mnist": None,
}


def task(name, seed, load):
    """Training and test rows; without a test part a third of the rows is for the test."""
    rng = np.random.default_rng(seed)
    if name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
        test = []
    else:
        X, y, *test = load(name, tfidf=name.endswith("_counts"))
    if test:
        X_test, y_test = test
    else:
        order = rng.permutation(len(y))
        third = len(order) // 3
        X, y, X_test, y_test = (
            X[order[third:]],
            y[order[third:]],
            X[order[:third]],
            y[order[:third]],
        )
    kept, of_test = (rng.permutation(len(part))[:ROWS] for part in (y, y_test))
    X, y, X_test, y_test = X[kept], y[kept], X_test[of_test], y_test[of_test]
    if SETS[name] is not None:
        y, y_test = np.isin(y, SETS[name]), np.isin(y_test, SETS[name])
    if sp.issparse(X):
        largest = max(1.0, abs(X).max())
        X, X_test = X / largest, X_test / largest
    else:
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return X, y, X_test, y_test


def contestants(n_rows, n_classes):
    """Name: what is fitted as it comes, at each value, and in the search."""
    Cs = [1.0 / (n_rows * value) for value in VALUES]
    for loss in TWO_CLASS + (JOINT if n_classes > 2 else ()):
        yield (
            loss,
            BMRMClassifier(loss),
            [BMRMClassifier(loss, reg_lambda=value) for value in VALUES],
            BMRMClassifierCV(loss, reg_lambdas=VALUES, cv=FOLDS),
        )
    logistic = GridSearchCV(LogisticRegression(), {"C": Cs}, cv=FOLDS)
    yield "LogisticRegression", LogisticRegression(), [], logistic
    yield "LinearSVC", LinearSVC(random_state=0), [], None


def compare(names, seeds, load, file):
    results = []
    for seed in range(seeds):
        for name in names:
            X, y, X_test, y_test = task(name, seed, load)
            n_classes = len(np.unique(y))
            for contestant, plain, fixed, search in contestants(len(y), n_classes):
                seconds, model = cpu_seconds(lambda: plain.fit(X, y))  # noqa: B023 - called at once
                results.append(
                    {
                        "set": name,
                        "seed": seed,
                        "rows": len(y),
                        "columns": X.shape[1],
                        "classes": n_classes,
                        "model": contestant,
                        "plain": model.score(X_test, y_test),
                        "at": [m.fit(X, y).score(X_test, y_test) for m in fixed],
                        "seconds": seconds,
                    }
                )
                if search is not None:
                    seconds, found = cpu_seconds(lambda: search.fit(X, y))  # noqa: B023
                    chosen = getattr(found, "reg_lambda_", None)
                    if chosen is None:
                        chosen = 1.0 / (len(y) * found.best_params_["C"])
                    results[-1] |= {
                        "searched": found.score(X_test, y_test),
                        "chosen": chosen,
                        "search_seconds": seconds,
                    }
                print(name, seed, contestant, results[-1]["plain"], file=sys.stderr, flush=True)
                write_json(file, results)
    return results


def percent(values):
    return f"{100 * mean(values):.1f}"


def of(results, key, **wanted):
    return [r[key] for r in results if key in r and all(r[k] == v for k, v in wanted.items())]


def show(results):
    """Three tables: as it comes, after a search, and the mean at each fixed value."""
    names = [name for name in SETS if name in of(results, "set")]
    found = set(of(results, "model"))
    models = [m for m in (*TWO_CLASS, *JOINT, "LogisticRegression", "LinearSVC") if m in found]
    groups = {
        "two classes": [n for n in names if SETS[n] is not None],
        "several": [n for n in names if SETS[n] is None],
    }
    for title, key in (("As it comes", "plain"), ("After the search", "searched")):
        rows = []
        for name in names:
            first = next(r for r in results if r["set"] == name)
            cells = [of(results, key, set=name, model=model) for model in models]
            size = f"{first['rows']} x {first['columns']}", str(first["classes"])
            rows.append([name, *size, *(percent(c) if c else "-" for c in cells)])
        for label, members in groups.items():
            cells = []
            for model in models:
                scores = [of(results, key, set=name, model=model) for name in members]
                cells.append(percent([mean(s) for s in scores]) if scores and all(scores) else "-")
            rows.append([f"mean, {label}", "", "", *cells])
        print_rst(f"{title}: test accuracy, %", ["set", "rows", "classes", *models], rows)
    rows, times = [], []
    for label, members in groups.items():
        for model in models:
            curves = [of(results, "at", set=name, model=model) for name in members]
            if members and all(curves) and curves[0][0]:
                means = np.mean([np.mean(c, axis=0)[: len(VALUES)] for c in curves], axis=0)
                rows.append([label, model, *(f"{100 * m:.1f}" for m in means)])
            seconds = [
                [t for name in members for t in of(results, key, set=name, model=model)]
                for key in ("seconds", "search_seconds")
            ]
            if seconds[0]:
                times.append([label, model, *(f"{sum(s):.1f}" if s else "-" for s in seconds)])
    print_rst("At a fixed reg_lambda", ["sets", "loss", *(f"{v:.0e}" for v in VALUES)], rows)
    print_rst("CPU seconds, all sets", ["sets", "model", "fits", "searches"], times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder with load.py")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers")
    parser.add_argument("--show", nargs="+", type=Path, metavar="FILE", help="what --json wrote")
    given = parser.parse_args()
    if given.show:
        show([row for file in given.show for row in json.loads(file.read_text())["results"]])
        return
    if given.data is None:
        parser.error("--data or --show is required")
    sys.path.insert(0, str(given.data))
    from load import load

    print(header("test accuracy; CPU seconds, one thread"))
    warnings.simplefilter("ignore", UserWarning)
    with quiet_single_thread():
        show(compare(given.sets, given.seeds, load, given.json))


if __name__ == "__main__":
    main()

"""What the exact optimum would score, as far as the gap of a fit knows: widths, and their price.

python asv_benchmarks/studies/optimum.py --data FOLDER [--part widths chains]

widths    the range of the optimum's test accuracy at three gaps, and CPU seconds
chains    the share of certain tokens of CoNLL-2000 chunking and of the OCR words
"""

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _measure import Table, cpu_seconds, header, quiet_single_thread
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from sklearn_bundle import SDCACRF, BMRMClassifier

TOLS = 1e-3, 1e-6, 1e-9
LOSSES = "squared_hinge", "log_loss", "hinge"
# Name, and the labels that are +1; the others are -1.
SETS = {
    "a9a": [1],
    "w8a": [1],
    "ijcnn1": [1],
    "mushrooms": [2],
    "phishing": [1],
    "covtype_20k": [2],
    "pendigits": [1, 3, 5, 7, 9],
    "letter": range(1, 14),
    "shuttle": [1],
    "usps": [2, 4, 6, 8, 10],
}


def binary_task(load, name):
    """Scaled training and test rows; a third of the rows is for the test if there is no part."""
    X, y, *test = load(name)
    y = np.isin(y, list(SETS[name])).astype(int)
    if test:
        X_test, y_test = test[0], np.isin(test[1], list(SETS[name])).astype(int)
    else:
        order = np.random.default_rng(0).permutation(X.shape[0])
        third = len(order) // 3
        held_out, kept = order[:third], order[third:]
        X, y, X_test, y_test = X[kept], y[kept], X[held_out], y[held_out]
    scaler = (MaxAbsScaler if sp.issparse(X) else StandardScaler)().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


def widths(load, names):
    table = Table(
        [
            *(("set", 12), ("loss", 14), ("reg_lambda", 10), ("tol", 6), ("gap", 8)),
            *(("least", 7), ("most", 7), ("width", 8), ("CPU s", 8), ("times", 6)),
        ]
    )
    at_tightest = []
    for name in names:
        X, y, X_test, y_test = binary_task(load, name)
        for loss in LOSSES:
            BMRMClassifier(loss).fit(X, y)  # compiles
            for reg_lambda in (1e-2, 1e-3, 1.0 / len(y)):
                first = None
                for tol in TOLS:
                    model = BMRMClassifier(loss, reg_lambda=reg_lambda, tol=tol, max_time=120.0)
                    seconds, _ = cpu_seconds(partial(model.fit, X, y))
                    low, high = model.score_bounds(X_test, y_test)
                    first = seconds if first is None else first
                    row = f"{reg_lambda:.0e}", f"{tol:.0e}", f"{model.relative_gap_:.1e}"
                    ends = f"{low:.4f}", f"{high:.4f}", f"{high - low:.4f}"
                    table.row(name, loss, *row, *ends, f"{seconds:.3f}", f"{seconds / first:.1f}")
                at_tightest.append((loss, high - low, seconds / first))
    for loss in LOSSES:
        wide, times = np.array([cell[1:] for cell in at_tightest if cell[0] == loss]).T
        print(
            f"{loss}, {TOLS[-1]:.0e}: width median {np.median(wide):.4f}, worst {wide.max():.4f}; "
            f"time median {np.median(times):.2f}, worst {times.max():.2f}"
        )


def chains(tasks):
    table = Table(
        [("set", 12), ("tol", 6), ("gap", 8), ("CPU s", 8), ("tokens", 8), ("sequences", 9)]
    )
    for name, task in tasks.items():
        X, y, X_test = task()
        for tol in (1e-3, 1e-5, 1e-7):
            model = SDCACRF(tol=tol, max_time=600.0)
            seconds, _ = cpu_seconds(partial(model.fit, X, y))
            found = model.certain(X_test)
            tokens = np.concatenate(found).mean()
            whole = np.mean([part.all() for part in found])
            row = f"{tol:.0e}", f"{model.relative_gap_:.1e}", f"{seconds:.1f}"
            table.row(name, *row, f"{tokens:.4f}", f"{whole:.4f}")


def chain_tasks(folder):
    """Features of a token as in the usual chunking template, and pixels of letters."""
    import load as data

    def chunking():
        parts = data.load_sequences("conll2000")

        def features(sentence):
            padded = [("<s>",) * 2, *((word[0], word[1]) for word in sentence), ("</s>",) * 2]
            return [
                {f"{place}{k}={padded[t + place][k]}": 1.0 for place in (-1, 0, 1) for k in (0, 1)}
                for t in range(1, len(padded) - 1)
            ]

        X, y = parts["train"]
        return [features(s) for s in X], y, [features(s) for s in parts["test"][0]]

    def letters():
        words = data.load_sequences("ocr_letters")
        (X, y), fold = words["all"], words["fold"]
        train, test = np.flatnonzero(fold != 0), np.flatnonzero(fold == 0)
        return [X[i] for i in train], [y[i] for i in train], [X[i] for i in test]

    return {"chunking": chunking, "OCR words": letters}


def main() -> None:
    parts = "widths", "chains"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with load.py")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--sets", nargs="+", choices=SETS, help="instead of those of the part")
    given = parser.parse_args()
    sys.path.insert(0, str(given.data))
    from load import load

    print(header("CPU seconds, one thread"))
    warnings.simplefilter("ignore", UserWarning)
    with quiet_single_thread():
        for part in given.part:
            print(f"\n{part}")
            if part == "chains":
                chains(chain_tasks(given.data))
            else:
                widths(load, given.sets or SETS)


if __name__ == "__main__":
    main()

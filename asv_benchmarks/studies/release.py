"""Compare the speed of this checkout with that of an older commit, cell by cell.

python asv_benchmarks/studies/release.py OLD [--data FOLDER] [--only TEXT] [--kinds fit one ...]
python asv_benchmarks/studies/release.py OLD --entered [--only TEXT]

Rows are what is measured of the cells of ``_release_cells.py``, in CPU ms of one thread:

fit      to data in memory, compiled before; with objective and relative gap, old and new
predict  all rows of X; "one" is the first row alone
first    import and fit in a new process that finds nothing compiled
memory   MiB that a fit adds to what its process held, at the most (Linux only)

A ratio is new / old, above 1 is slower. Two processes of either version take turns, and the fastest
round counts: the work is the same in all, and whatever else happens only adds to it. Status 1 means
a ratio above 1.5, a geometric mean of a kind in a family above 1.15, a bound of one version above
an objective of the other (both cannot be true), or a tol that the new fit alone misses; such rows
are first measured again, in new processes with three times the rounds. What a version cannot run
has no ratio, but a note.

With ``--entered`` it counts instead what one has to read: for the fits of "first", the Python
functions of the package that a second fit enters, their files, and what the first one compiles.

Each version is copied to a folder of its own, with byte code, which comes first on the path of this
interpreter: what pip does with a package in pure Python. So both have the same libraries.
"""

import argparse
import compileall
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import isclass, signature
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from _release_cells import CELLS, FOLDER, Cell, load

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("fit", "predict", "one", "first", "memory")
MOST, MOST_IN_MEAN = 1.5, 1.15  # ratios
SAMPLE = 0.02  # CPU seconds; shorter runs are repeated, for clocks and caches have their jitter
ENOUGH, TOO_LONG = 1.0, 10.0  # of all rounds: there are more until one, none after the other
PAIRS = 2  # of processes; where memory lies in one moves its times by up to a quarter
FEW = 200  # rows of the fit before the one whose memory counts
ROUNDING = 1e-9  # of an objective, for sums in another order
# Objectives, bounds, how the fit ended, and what a search may have chosen: of estimators, of paths.
OF_ESTIMATORS = ("objective_", "lower_bound_", "status_", "reg_lambda_", "C_")
OF_PATHS = ("objectives", "lower_bounds", "statuses", "reg_lambdas")


def use(folder: Path) -> None:
    """Begin a process of the version in the folder."""
    sys.path.insert(0, str(folder))
    assert Path(importlib.util.find_spec("sklearn_bundle").origin).is_relative_to(folder)
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "compiled")


def fit(cell: Cell) -> Any:
    """A fitted estimator, or a path."""
    made = getattr(importlib.import_module("sklearn_bundle"), cell.made)
    drawn = {"random_state", "params"} & set(signature(made).parameters)  # paths pass params on
    seed = {"random_state": 0} if drawn and "bmrm" not in cell.made.lower() else {}
    params = dict(cell.params) | seed
    X, y, further = load(cell.data)
    return made(**params).fit(X, y, **further) if isclass(made) else made(X, y, **params)


fitted = lru_cache(maxsize=1)(fit)  # before the fits that are timed; it compiles


def certificate(cell: Cell) -> list[np.ndarray]:
    """What the names above say."""
    model = fitted(cell)
    gc.freeze()  # what compilation left would take .2 s in each collection
    names = OF_PATHS if isinstance(model, tuple) else OF_ESTIMATORS
    return [np.ravel(getattr(model, name, np.nan)) for name in names]


def timed(cell: Cell, kind: str) -> float:
    X = load(cell.data)[0][: 1 if kind == "one" else None]
    run, *given = (fit, cell) if kind == "fit" else (fitted(cell).predict, X)
    gc.collect()
    start, n_runs = process_time(), 0
    while not n_runs or process_time() - start < SAMPLE:
        run(*given)
        n_runs += 1
    return (process_time() - start) / n_runs


def first(cell: Cell) -> float:
    load(cell.data)
    with TemporaryDirectory() as os.environ["NUMBA_CACHE_DIR"]:
        start = process_time()
        fit(cell)
        return process_time() - start


def entered(cell: Cell) -> tuple[int, int, int]:
    """Functions and files of the package that a fit enters, and specializations it compiles."""
    import numba

    with TemporaryDirectory() as os.environ["NUMBA_CACHE_DIR"]:
        fit(cell)  # imports and compiles, which calls other functions
    compiled = [d for d in gc.get_objects() if type(d) is type(numba.njit(compare))]
    package = str(Path(importlib.import_module("sklearn_bundle").__file__).parent)
    found = set()

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and not frame.f_code.co_name.startswith("<"):
            found.add(frame.f_code)

    threading.setprofile(note)  # of threads that begin from now on
    sys.setprofile(note)
    fit(cell)
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    of_package = [code for code in found if code.co_filename.startswith(package)]
    files = {code.co_filename for code in of_package}
    return len(of_package), len(files), sum(len(d.signatures) for d in compiled)


def show_entered(folder: Path, cells: Iterable[Cell]) -> None:
    """A row a cell: old and new functions, files and specializations."""
    *_, fresh = workers(folder)
    print(f"{'':<72} {'functions':>11} {'files':>9} {'compiled':>9}")
    for cell in cells:
        pairs = zip(*ask(fresh, entered, cell), strict=True)
        counts = (f"{old} {new}" for old, new in pairs)
        print(f"{cell.name:<72.72} {next(counts):>11}", *map("{:>9}".format, counts), flush=True)


def memory(cell: Cell) -> float:
    """MiB beyond what the process held when data and code were loaded."""
    from resource import RUSAGE_SELF, getrusage  # Windows has none

    load(cell.data)
    fit(cell._replace(data=f"{cell.data} {FEW}"))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what the process holds
    before = getrusage(RUSAGE_SELF).ru_maxrss
    fit(cell)
    return (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024


@dataclass
class Row:
    """What was measured of a cell: of the old version and of the new one."""

    cell: Cell
    kind: str
    old: float = np.nan
    new: float = np.nan
    note: str = ""
    faults: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        return self.new / self.old

    def __str__(self) -> str:
        text = f"{self.cell.name:<72.72} {self.kind:<7}"
        if self.ratio > 0.0:
            scale = 1.0 if self.kind == "memory" else 1e3
            text += f" {scale * self.old:9.3f} {scale * self.new:9.3f} {self.ratio:5.2f}"
        return "; ".join((f"{text}  {self.note}".rstrip(), *self.faults))


def compare(old: list[np.ndarray], new: list[np.ndarray]) -> Iterator[str]:
    """What cannot be true of both certificates, or got worse."""
    if np.all(old[2] == "converged") and not np.all(new[2] == "converged"):
        yield "the new fit misses its tol"
    if old[0].shape != new[0].shape:
        yield "another number of problems"
    elif not any(np.any(abs(moved) > ROUNDING) for moved in map(np.subtract, old[3:], new[3:])):
        # What was chosen is the same, or one version does not tell: so are the problems.
        for name, bounds, objectives in (("old", old[1], new[0]), ("new", new[1], old[0])):
            if np.any(bounds > objectives + ROUNDING * abs(objectives)):
                yield f"the {name} bound is above the other objective"


def means(rows: Iterable[Row]) -> dict[tuple[str, str], float]:
    """Geometric means of the ratios, by family and kind."""
    ratios = {}
    for row in rows:
        if row.ratio > 0.0:
            ratios.setdefault((row.cell.family, row.kind), []).append(row.ratio)
    return {key: geometric_mean(group) for key, group in ratios.items()}


def failures(rows: list[Row]) -> dict[str, list[Row]]:
    """All for which the new version fails, and the rows that show it."""
    found = {f"{r.ratio:.2f} in {r.kind} of {r.cell.name}": [r] for r in rows if r.ratio > MOST}
    found |= {f"{row.cell.name}: {fault}": [row] for row in rows for fault in row.faults}
    for (family, kind), mean in means(rows).items():
        if mean > MOST_IN_MEAN:
            group = [row for row in rows if (row.cell.family, row.kind) == (family, kind)]
            found[f"{mean:.2f} in the mean of {kind}, {family}"] = group
    return found


def install(commit: str, folder: Path) -> None:
    """A folder for each version."""
    git = ["git", "-C", ROOT, "archive", "--output", folder / "old.tar", commit, "sklearn_bundle"]
    subprocess.run(git, check=True)
    shutil.unpack_archive(folder / "old.tar", folder / "old")
    shutil.copytree(ROOT / "sklearn_bundle", folder / "new" / "sklearn_bundle")
    compileall.compile_dir(folder, quiet=1)


def workers(folder: Path) -> list[dict[str, ProcessPoolExecutor]]:
    """Pairs of processes, by "old" and "new", and one whose processes end after each task."""
    start = partial(ProcessPoolExecutor, 1, get_context("spawn"), use)
    return [
        {side: start((folder / side,), max_tasks_per_child=n) for side in ("old", "new")}
        for n in (*[None] * PAIRS, 1)
    ]


def ask(pair: dict, action: Callable, *given: Any) -> list[Any]:
    """The answers of processes that work at the same time."""
    futures = {side: worker.submit(action, *given) for side, worker in pair.items()}
    errors = [f"{side}: {f.exception()!r}" for side, f in futures.items() if f.exception()]
    if errors:
        raise RuntimeError("; ".join(errors))
    return [future.result() for future in futures.values()]


def measure(pairs: list, fresh: dict, cell: Cell, kind: str, rounds: int) -> Row:
    """A row; what is not a first fit has been compiled before."""
    if kind == "first":
        return Row(cell, kind, *ask(fresh, first, cell))
    (old, new), *_ = [ask(pair, certificate, cell) for pair in pairs]
    if kind == "memory":  # of two, since pieces of memory that are free may serve or not
        return Row(cell, kind, *np.min([ask(fresh, memory, cell) for _ in range(2)], axis=0))
    taken, spent = [], 0.0
    while spent < ENOUGH or (len(taken) < rounds and spent < TOO_LONG):
        pair = pairs[len(taken) % PAIRS]
        taken.append([ask({side: pair[side]}, timed, cell, kind)[0] for side in pair])
        spent += sum(max(SAMPLE, value) for value in taken[-1])
    row = Row(cell, kind, *np.min(taken, axis=0))
    if kind == "fit":
        texts = (f"{P.sum():11.6g} {max((P - low) / abs(P)):.0e}" for P, low, *_ in (old, new))
        row.note, row.faults = "  ".join(texts), tuple(compare(old, new))
    return row


def run(folder: Path, asked: Iterable[Row], rounds: int) -> Iterator[Row]:
    """The rows with their figures, printed as they come."""
    *pairs, fresh = workers(folder)
    for wanted in asked:
        try:
            row = measure(pairs, fresh, wanted.cell, wanted.kind, rounds)
        except RuntimeError as error:
            row = Row(wanted.cell, wanted.kind, note=str(error).splitlines()[0])
            row.faults = ("its process ended",) * ("BrokenProcessPool" in row.note)
            *pairs, fresh = workers(folder)
        print(row, flush=True)
        yield row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="a commit")
    parser.add_argument("--data", default=os.environ.get(FOLDER), help="folder of the data sets")
    parser.add_argument("--only", default="", help="cells with this text in family or name")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--entered", action="store_true", help="count functions and files alone")
    given = parser.parse_args()
    # Workers inherit these; hashes order sets of strings.
    os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    os.environ |= {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore", FOLDER: given.data or ""}
    cells = [c for c in CELLS if given.only.lower() in f"{c.family} {c.name}".lower()]
    cells = [c for c in cells if given.data or c.data.startswith("made")]
    asked = [Row(cell, kind) for cell in cells for kind in cell.kinds if kind in given.kinds]
    print(f"{ROOT} / {given.old}: old, new, new / old; of fits objective and gap, old and new")
    with TemporaryDirectory() as folder:
        install(given.old, Path(folder))
        if given.entered:
            show_entered(Path(folder), [cell for cell in cells if "first" in cell.kinds])
            return 0
        rows = list(run(Path(folder), asked, given.rounds))
        again = {id(row): row for group in failures(rows).values() for row in group}.values()
        print("\nmeasured again" if again else "")
        for row, more in zip(again, run(Path(folder), again, 3 * given.rounds), strict=True):
            row.old, row.new = np.fmin(row.old, more.old), np.fmin(row.new, more.new)
            row.note, row.faults = more.note, more.faults
    print(f"\ngeometric means; {sum(np.isnan(row.ratio) for row in rows)} rows have no ratio")
    for (family, kind), mean in means(rows).items():
        print(f"{family:<10} {kind:<7} {mean:5.2f}")
    print("\nworst", *sorted(rows, key=lambda row: -np.nan_to_num(row.ratio))[:10], sep="\n")
    failed = [f"FAILED: {text}" for text in failures(rows)]
    print("", *failed or ["passed"], sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

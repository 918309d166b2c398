"""Break the package in small ways, and see that the net tells:  python .ci/mutants.py

Each entry of .ci/mutants.toml is a mutant: a text of one file of the package, which must occur once
in it, and what stands there instead. There are two kinds:

``[[mutant]]`` breaks what is reported: objectives, bounds, rounding, labels, weights, stops. A test
of tests/contract, or one inside a family, must fail. The entry names its file; the files named are
run on the package as it is, and have to pass (``--tested`` leaves that to the caller); then on a
copy for each mutant in turn, until one test fails.

``[[step]]`` breaks a step of a solver: a wrong gradient, a wrong sign, a class that is forgotten.
Fits may get slow, miss their tol or be refused, but they may not lie: no assertion about a fit that
ended early or that was drawn at random fails.

A mutant is killed by a test's assertion, or where the package itself refuses a bound above its
objective. It is no kill where a test ends in another exception, or where tests are not found or
cannot be collected: then the mutant proves nothing, and has to be changed. Prints what killed each;
fails unless all were killed and no step made a fit lie.

Python starts once: each run is a fork of a process that has imported what the package needs, but
nothing of the package. Functions that numba compiles come from the checkout's disk cache unless a
mutant is in one of them, in a function that they call, or in a constant of theirs.
"""

import argparse
import ast
import difflib
import gc
import json
import os
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / ".ci" / "mutants.toml"
NET = "tests/contract"
# What must hold of fits that got slow: their certificates, however they end.
HONEST = [f"{NET}/test_random.py", f"{NET}/test_certificates.py"]
PACKAGE = "sklearn_bundle"
COPIED = (PACKAGE, "tests", "examples", "pyproject.toml")
# Folders and files that the stamp of jit/decorators.py is a hash of.
STAMPED = {"jit", "_compiled", "losses", "limits.py", "roundoff.py"}
IMPORTED = (  # what takes long to import
    *("numba", "pytest", "hypothesis", "clarabel", "joblib", "pandas", "scipy.optimize"),
    *("sklearn.datasets", "sklearn.metrics", "sklearn.model_selection", "sklearn.preprocessing"),
    *("sklearn.linear_model", "sklearn.svm", "sklearn.callback"),
)
CPU_SECONDS, BYTES = 400, 8 << 30  # of a mutant, which may never end
LONGEST = 900  # seconds of any run
REFUSED = "lies above the objective"  # what the package itself says of a bound that cannot be true
WORDS = {"passed": "SURVIVED"}


@dataclass(frozen=True)
class Mutant:
    """``tests`` is a file, from tests/contract on; ``select`` is what pytest's -k takes.

    Of a step, ``select`` names the estimators that take it.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str = "test_certificates.py"
    select: str = ""
    is_step: bool = False

    @property
    def path(self) -> Path:
        return Path(PACKAGE, self.file)

    @property
    def arguments(self) -> list[str]:
        """Those of pytest."""
        if self.is_step:
            fits = "(test_random or test_plain or max_iter)"
            return [*HONEST, "-k", f"{fits} and ({self.select})" if self.select else fits]
        return ["-x", *selected(self.tests, self.select)]

    def faults(self) -> list[str]:
        """What is wrong with the entry, before anything runs."""
        if not (ROOT / self.path).is_file():
            return [f"{self.name}: stale, there is no {self.path}"]
        source = (ROOT / self.path).read_text(encoding="utf-8")
        count = source.count(self.old)
        if count != 1:
            return [self._stale(source, count)]
        if not (ROOT / NET / self.tests).is_file():
            return [f"{self.name}: stale, there is no {NET}/{self.tests}"]
        try:
            ast.parse(source.replace(self.old, self.new))
        except SyntaxError as error:
            return [f"{self.name}: {self.path} would be no Python: {error}"]
        return [] if self.old != self.new else [f"{self.name}: changes nothing"]

    def _stale(self, source: str, count: int) -> str:
        """Where the text may have gone to."""
        lines, first = source.splitlines(), self.old.strip().splitlines()[0].strip()
        if count > 1:
            places = [k for k, line in enumerate(lines, start=1) if first in line]
            which = ", ".join(map(str, places))
            return (
                f"{self.name}: stale, its text occurs {count} times in {self.path} (lines "
                f"{which}). Make `old` longer, so that it occurs once."
            )
        stripped = [line.strip() for line in lines]
        near = difflib.get_close_matches(first, stripped, n=1, cutoff=0.5)
        hint = f" The nearest line is {stripped.index(near[0]) + 1}: {near[0]}" if near else ""
        return (
            f"{self.name}: stale, {self.path} does not hold its text:\n"
            f"    {self.old.strip()}\n"
            f"   {hint or ' No line is like it.'}\n"
            "    If that code was rewritten, break what now does the same; if what it did is gone, "
            "so may the mutant."
        )

    def alive(self, outcome: "Outcome") -> str:
        """Why it is not killed, and what to do."""
        lines = [f"{self.name}: not killed", f"    {self.path}:"]
        lines += [f"    - {line}" for line in self.old.splitlines()]
        lines += [f"    + {line}" for line in self.new.splitlines()]
        lines += [f"    pytest {shlex.join(self.arguments)}: {outcome.text}"]
        if outcome.kind == "passed":
            lines += ["    A fault that no test sees: write the test that does."]
        elif outcome.test:
            lines += [
                f"    {outcome.test}",
                "    ended in an exception that is no assertion: select a test that compares.",
            ]
        else:
            lines += [outcome.log]
        return "\n".join(lines)

    def apply(self, folder: Path) -> None:
        """Change the file in the folder, of which others may have the original by another link."""
        path = folder / self.path
        source = path.read_text(encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.unlink()
        path.write_text(source.replace(self.old, self.new), encoding="utf-8")

    def changes(self, folder: Path) -> set[str]:
        """Names of functions whose compiled code differs: what the text is in, and what calls it.

        Every function that mentions a name counts as one that calls it, whatever it means there. A
        function that is registered is called by the name that it is registered for. ``folder`` has
        the package as it is.
        """
        if not STAMPED.intersection(Path(self.file).parts):
            return set()
        source = (folder / self.path).read_text(encoding="utf-8")
        start = source[: source.index(self.old)].count("\n") + 1
        stop = start + self.old.strip("\n").count("\n")
        changed = set()
        for node in ast.parse(source).body:
            decorators = getattr(node, "decorator_list", [])
            first = min(part.lineno for part in (node, *decorators))
            if first <= stop and start <= node.end_lineno:
                is_function = isinstance(node, ast.FunctionDef)
                if isinstance(node, ast.ClassDef) or (is_function and not decorators):
                    continue  # what Python runs
                changed |= {node.name} if is_function else mentioned(node)
        size = -1
        while len(changed) > size:
            size = len(changed)
            for name, registered, names in compiled_functions():
                if name in changed:
                    changed |= registered
                elif names & changed:
                    changed.add(name)
        return changed


def mentioned(node: ast.AST) -> set[str]:
    """Names and attributes in this piece of source."""
    nodes = list(ast.walk(node))
    names = {part.id for part in nodes if isinstance(part, ast.Name)}
    names |= {part.asname or part.name for part in nodes if isinstance(part, ast.alias)}
    return names | {part.attr for part in nodes if isinstance(part, ast.Attribute)}


@cache
def compiled_functions() -> list[tuple[str, set[str], set[str]]]:
    """Functions with a decorator: name, names that they are registered for, names they mention.

    Constants are among them.
    """
    found = []
    for path in (ROOT / PACKAGE).rglob("*.py"):
        if not STAMPED.intersection(path.parts):
            continue
        module = ast.parse(path.read_text(encoding="utf-8"))
        for node in module.body:
            if isinstance(node, ast.Assign):
                targets = set().union(*map(mentioned, node.targets))
                found += [(name, set(), mentioned(node.value)) for name in targets]
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                calls = [call for call in node.decorator_list if isinstance(call, ast.Call)]
                registered = {ast.unparse(c.args[0]).rpartition(".")[-1] for c in calls if c.args}
                found.append((node.name, registered, mentioned(node)))
    return found


def selected(file: str, select: str) -> list[str]:
    """Arguments of pytest."""
    return [f"{NET}/{file}", *(["-k", select] if select else [])]


class Witness:
    """A plugin of pytest that notes the first failure, and rather one of an assertion."""

    def __init__(self):
        self.failure = None
        self.passed = 0

    def pytest_runtest_makereport(self, item, call):
        import pytest

        if call.excinfo is None:
            self.passed += call.when == "call"
        elif not call.excinfo.errisinstance(pytest.skip.Exception):
            text = str(call.excinfo.value).strip() or call.excinfo.typename
            asserted = call.excinfo.errisinstance((AssertionError, pytest.fail.Exception))
            if self.failure is None or (asserted and not self.failure["asserted"]):
                self.failure = {
                    "test": item.nodeid.removeprefix("tests/"),
                    "asserted": asserted and call.when == "call",
                    "refused": REFUSED in text,
                    "error": f"{call.excinfo.typename}: {text.splitlines()[0]}",
                }


@dataclass
class Outcome:
    """How a run ended: "passed", "failed", "refused" by the package or "error", and what failed."""

    kind: str
    test: str
    text: str
    seconds: float
    log: str


class Runs:
    """Runs of pytest in forks of this process, so many at a time."""

    def __init__(self, jobs: int, work: Path):
        self._jobs, self._work = jobs, work
        self._running: dict[int, tuple] = {}

    def each(self, tasks):
        """(key, outcome) of every (key, folder to run in, arguments, mutant or None)."""
        for task in tasks:
            while len(self._running) >= self._jobs:
                yield self._wait()
            self._start(*task)
        while self._running:
            yield self._wait()

    def _start(self, key, folder: Path, arguments: list[str], mutant: Mutant | None) -> None:
        files = Path(tempfile.mkdtemp(dir=self._work))
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _child(files, folder, arguments, mutant)
        self._running[child] = key, files

    def _wait(self):
        child, status, usage = os.wait3(0)
        key, files = self._running.pop(child)
        seconds = usage.ru_utime + usage.ru_stime
        outcome = _outcome(os.waitstatus_to_exitcode(status), seconds, files)
        shutil.rmtree(files)
        return key, outcome


def _outcome(code: int, seconds: float, files: Path) -> Outcome:
    log = (files / "log").read_text(encoding="utf-8", errors="replace")
    if code != 0:
        text = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return Outcome("error", "", text, seconds, log)
    said = json.loads((files / "verdict").read_text(encoding="utf-8"))
    failure = said["failure"]
    if said["code"] == 0 and said["passed"]:
        return Outcome("passed", "", f"{said['passed']} tests", seconds, log)
    if said["code"] == 1 and failure:
        kind = "failed" if failure["asserted"] else "refused" if failure["refused"] else "error"
        return Outcome(kind, failure["test"], failure["error"], seconds, log)
    text = "no test was run" if said["code"] in (0, 5) else f"pytest's status {said['code']}"
    return Outcome("error", "", text, seconds, log)


def _child(files: Path, folder: Path, arguments: list[str], mutant: Mutant | None) -> None:
    """In a fork: never returns."""
    try:
        signal.alarm(LONGEST)
        log = os.open(files / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if mutant is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            original, folder = folder, files / "copy"
            shutil.copytree(original, folder, copy_function=os.link)
            mutant.apply(folder)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        if mutant is not None:
            _use_cache_of(original, mutant.changes(original))
        import pytest

        witness = Witness()
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of IMPORTED
        code = pytest.main([*options, *arguments], plugins=[witness])
        verdict = {"code": int(code), "failure": witness.failure, "passed": witness.passed}
        (files / "verdict").write_text(json.dumps(verdict), encoding="utf-8")
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


def _use_cache_of(original: Path, changed: set[str]) -> None:
    """Make numba take compiled functions from the original's cache, except those of these names.

    If there are any, also except those of tests: what they call is not known.
    """
    path = original / PACKAGE / "jit" / "decorators.py"
    spec = spec_from_file_location("_decorators_of_the_original", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    stamp = module.source_stamp()
    decorators = import_module(f"{PACKAGE}.jit.decorators")  # before what it compiles
    own, jit = decorators.source_stamp(), decorators.jit

    def jit_from_cache(function, *arguments, **options):
        of_package = function.__module__.startswith(f"{PACKAGE}.")
        is_changed = function.__name__ in changed or (changed and not of_package)
        decorators.source_stamp = lambda: own if is_changed else stamp
        return jit(function, *arguments, **options)

    decorators.jit = jit_from_cache


def read_list() -> list[Mutant]:
    """Entries of the list, in order."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))
    mutants = [Mutant(**entry) for entry in entries["mutant"]]
    mutants += [Mutant(**entry, is_step=True) for entry in entries["step"]]
    names = [mutant.name for mutant in mutants]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        sys.exit(f"{LIST.name}: names that occur twice: {', '.join(sorted(doubled))}")
    return mutants


def check_original(mutants: list[Mutant], runs: Runs) -> bool:
    """The tests named pass in the checkout, whose disk cache of numba they fill."""
    named: dict[str, list[str]] = {}
    for mutant in mutants:
        if not mutant.is_step:
            named.setdefault(mutant.tests, []).append(mutant.select)
    tasks = []
    for file, parts in named.items():
        some = " or ".join(f"({part})" for part in dict.fromkeys(parts)) if all(parts) else ""
        tasks.append((file, ROOT, selected(file, some), None))
    passed, seconds = True, 0.0
    for file, outcome in runs.each(tasks):
        seconds += outcome.seconds
        if outcome.kind != "passed":
            passed = False
            print(f"{file}: {outcome.test} {outcome.text}\n{outcome.log}")
    print(f"{len(tasks)} files of tests, nothing broken: {seconds:.0f} s of CPU", flush=True)
    return passed


def check_mutants(mutants: list[Mutant], runs: Runs, base: Path) -> bool:
    """Each mutant is killed; prints a line of each."""
    wide = max(len(mutant.name) for mutant in mutants)
    tasks = ((mutant, base, mutant.arguments, mutant) for mutant in mutants)
    bad, seconds = [], 0.0
    for mutant, outcome in runs.each(tasks):
        seconds += outcome.seconds
        what = outcome.test
        if mutant.is_step and outcome.kind != "failed":
            what = "honest"
        elif mutant.is_step or outcome.kind not in ("failed", "refused"):
            bad.append((mutant, outcome))
            what = "LIES" if mutant.is_step else WORDS.get(outcome.kind, "NO KILL")
        print(f"{mutant.name:{wide}}  {outcome.seconds:5.1f} s  {what}", flush=True)
    for mutant, outcome in bad:
        print(mutant.alive(outcome))
    print(f"{len(mutants) - len(bad)} of {len(mutants)} as they should be, {seconds:.0f} s of CPU")
    return not bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="check the entries, run no tests")
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="mutants whose name has a text")
    parser.add_argument("--tested", action="store_true", help="all tests pass here: CI runs them")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count()), help="runs at once")
    options = parser.parse_args()

    mutants = read_list()
    if options.only:
        mutants = [m for m in mutants if any(text in m.name for text in options.only)]
    faults = [fault for mutant in mutants for fault in mutant.faults()]
    if faults or not mutants:
        print("\n".join(faults) or "no such mutant")
        return 1
    if options.list:
        print("\n".join(f"{mutant.name}  ({mutant.path})" for mutant in mutants))
        return 0

    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # no threads to fork
    os.environ.pop("NUMBA_CACHE_DIR", None)  # it would be another cache for every copy
    for name in IMPORTED:
        try:
            import_module(name)
        except ImportError:  # tests that need it skip themselves
            continue
    compiled_functions()
    gc.freeze()  # forks need not look at what all of them have
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        runs = Runs(options.jobs, Path(work))
        if not (options.tested or check_original(mutants, runs)):
            return 1
        base = Path(work) / "base"
        base.mkdir()
        for name in COPIED:
            if (ROOT / name).is_dir():
                # Other tests that run write into numba's cache: files of these names vanish.
                unfinished = shutil.ignore_patterns("*.tmp.*")
                shutil.copytree(ROOT / name, base / name, ignore=unfinished)
            else:
                shutil.copy2(ROOT / name, base / name)
        killed = check_mutants(mutants, runs, base)
    print(f"{time.monotonic() - start:.0f} s")
    return 0 if killed else 1


if __name__ == "__main__":
    sys.exit(main())

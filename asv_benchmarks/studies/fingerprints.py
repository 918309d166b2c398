"""Fits many small instances and prints a hash of each: the check of a refactoring, bit by bit.

python asv_benchmarks/studies/fingerprints.py --out FILE        # before a change
python asv_benchmarks/studies/fingerprints.py --against FILE    # after it, or each step of it
python asv_benchmarks/studies/fingerprints.py --against FILE --certificates    # results may move
python asv_benchmarks/studies/fingerprints.py [--only TEXT] [--list]

A change that is to move code and not results leaves every hash as it was. A line is the name of an
instance, its hash, the iterations, the status and the relative gap. The hash covers the exact bytes
of the fitted attributes, of the certificate, of the history without its seconds, and of predictions
for a few rows. ``--against`` names the instances that differ and the parts in which they do
(coefficients, objective, bound, iterations, history, predictions,
kinds of warnings), and exits with 1 if there are
any. Instances that the file lacks are listed as new. An instance that raises has its exception as
its result.

With ``--certificates`` an instance that differs is in order if its fits end with the same status
and kinds of warnings, in as many iterations to within 5 % or two, and if each bound is below the
objective of the other side. The line names what moved; what is not in order is counted.

Hashes are of one machine and one set of versions of the libraries: compilers and BLAS round in
their own ways. A file is worth something where it was made, and goes into no repository. The
package is that of the checkout which this file is in.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from _fingerprints import Case, hashes, short_hash  # noqa: E402
from _fingerprints_further import CASES as FURTHER  # noqa: E402
from _fingerprints_hard import CASES as HARD  # noqa: E402
from _fingerprints_kernel import CASES as KERNEL  # noqa: E402
from _fingerprints_linear import CASES as LINEAR  # noqa: E402
from _fingerprints_own import CASES as OWN  # noqa: E402
from _fingerprints_refits import CASES as REFITS  # noqa: E402
from _fingerprints_sequences import CASES as SEQUENCES  # noqa: E402
from _fingerprints_structured import CASES as STRUCTURED  # noqa: E402
from _measure import header, versions  # noqa: E402

_MORE, _FEW = 0.05, 2  # share of the iterations, and iterations, by which a fit may differ


def instances(text: str | None) -> dict[str, Callable]:
    """Name -> what fits it; those with the text in their name."""
    named = [
        (case.name, case) if isinstance(case, Case) else case
        for case in (*LINEAR, *FURTHER, *REFITS, *OWN, *HARD, *KERNEL, *SEQUENCES, *STRUCTURED)
    ]
    names = [name for name, _ in named]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f"These names stand for several instances: {sorted(twice)}.")
    return {name: case for name, case in named if text is None or text.lower() in name.lower()}


def record(case: Callable) -> dict[str, Any]:
    """What an instance gives, an exception too."""
    try:
        return hashes(case)
    except Exception as error:  # whatever it is: that it comes, and its text, are compared
        raised = f"{type(error).__name__}: {error}"
        return {"hash": short_hash(raised), "parts": {}, "error": raised}


def line(name: str, found: dict[str, Any]) -> str:
    """The line on an instance."""
    if "error" in found:
        return f"{name:<46} {found['hash']}  {found['error'].splitlines()[0]}"
    figures = f"{found['n_iter']:>7}  {found['status']:<18} {found['gap']:.1e}"
    return f"{name:<46} {found['hash']} {figures}"


def differences(before: dict, after: dict) -> str:
    """In which parts two records of an instance differ."""
    if "error" in before or "error" in after:
        return f"{before.get('error', 'a fit')} -> {after.get('error', 'a fit')}"
    parts = [
        part
        for part in {**before["parts"], **after["parts"]}
        if before["parts"].get(part) != after["parts"].get(part)
    ]
    figures = [
        f"{name} {before[name]} -> {after[name]}"
        for name in ("n_iter", "status", "gap")
        if before[name] != after[name]
    ]
    return ", ".join(parts) + (f" ({', '.join(figures)})" if figures else "")


def compare(before: dict[str, dict], after: dict[str, dict], everything: bool) -> Iterator[str]:
    """A line for each instance that differs, or that one of the two lacks."""
    for name, found in after.items():
        if name in before and before[name]["hash"] != found["hash"]:
            yield f"DIFFERS {name}: {differences(before[name], found)}"
    if everything:
        yield from (f"GONE    {name}" for name in before if name not in after)


def faults(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What a change that moves results must not change, in one instance."""
    if before["hash"] == after["hash"]:
        return []
    if "error" in before or "error" in after:
        return [differences(before, after)]
    found = []
    if before["parts"]["warnings"] != after["parts"]["warnings"]:
        found.append("warnings")
    for (n, status, old), (m, other, new) in zip(before["fits"], after["fits"], strict=True):
        if status != other:
            found.append(f"status {status} -> {other}")
        elif abs(m - n) > max(_MORE * n, _FEW):
            found.append(f"n_iter {n} -> {m}")
        for (objective, bound), (moved, proved) in zip(old, new, strict=True):
            if bound > moved or proved > objective:
                found.append(f"bounds {bound!r}, {proved!r}; objectives {objective!r}, {moved!r}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the hashes to this file")
    parser.add_argument("--against", type=Path, help="compare with the file of an earlier run")
    parser.add_argument("--certificates", action="store_true", help="allow results to move")
    parser.add_argument("--only", help="instances with this text in their name")
    parser.add_argument("--list", action="store_true", help="print the names and fit nothing")
    given = parser.parse_args()
    cases = instances(given.only)
    if given.list:
        print("\n".join(cases))
        return 0
    before = None if given.against is None else json.loads(given.against.read_text())
    print(header(f"hashes of {ROOT / 'sklearn_bundle'}"))
    after = {}
    for name, case in cases.items():
        after[name] = record(case)
        print(line(name, after[name]), flush=True)
    libraries = {name: value for name, value in versions().items() if name != "date"}
    if given.out is not None:
        given.out.write_text(json.dumps({"versions": libraries, "instances": after}, indent=1))
    if before is None:
        return 0
    if before["versions"] != libraries:
        print(f"\nOther versions, hashes may differ: {before['versions']} before, {libraries} now.")
    code = verdict(before["instances"], after, given.only is None)
    if not given.certificates:
        return code
    wrong = {
        name: found
        for name in after
        if name in before["instances"] and (found := faults(before["instances"][name], after[name]))
    }
    print("\n".join(f"FAULT   {name}: {'; '.join(found)}" for name, found in wrong.items()))
    print(f"{len(wrong)} not in order by their certificates")
    return int(bool(wrong))


def verdict(before: dict[str, dict], after: dict[str, dict], everything: bool) -> int:
    """Print what differs; 1 if anything does."""
    print()
    for name in (name for name in after if name not in before):
        print(f"new     {name}")
    different = list(compare(before, after, everything))
    print("\n".join(different), end="\n" if different else "")
    known = [name for name in after if name in before]
    equal = sum(before[name]["hash"] == after[name]["hash"] for name in known)
    print(f"{equal} of {len(known)} equal")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())

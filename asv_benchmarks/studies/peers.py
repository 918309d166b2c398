"""Compare sklearn_bundle with its peers: time, memory and ratios at equal suboptimality.

python asv_benchmarks/studies/peers.py linear --data FOLDER
python asv_benchmarks/studies/peers.py cells --data FOLDER
python asv_benchmarks/studies/peers.py sparse --data FOLDER
python asv_benchmarks/studies/peers.py pragam --data FOLDER
python asv_benchmarks/studies/peers.py projection
python asv_benchmarks/studies/peers.py kernel --data FOLDER
python asv_benchmarks/studies/peers.py same --data FOLDER
python asv_benchmarks/studies/peers.py crf --data FOLDER
python asv_benchmarks/studies/peers.py measures --data FOLDER
python asv_benchmarks/studies/peers.py structured --data FOLDER
python asv_benchmarks/studies/peers.py cluster --data FOLDER
python asv_benchmarks/studies/peers.py curves --data FOLDER
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where benchmarks is

import _cells
import _cluster
import _crf
import _curves
import _kernel
import _kernel_same
import _linear
import _measures
import _pragam
import _projection
import _sparse
import _structured

# A study is a module with HELP, add_arguments(parser) and run(arguments).
STUDIES = {
    "linear": _linear,
    "cells": _cells,
    "sparse": _sparse,
    "pragam": _pragam,
    "projection": _projection,
    "kernel": _kernel,
    "same": _kernel_same,
    "crf": _crf,
    "measures": _measures,
    "structured": _structured,
    "cluster": _cluster,
    "curves": _curves,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    subparsers = parser.add_subparsers(required=True, metavar="study")
    for name, study in STUDIES.items():
        subparser = subparsers.add_parser(name, help=study.HELP, description=study.__doc__)
        subparser.formatter_class = argparse.RawDescriptionHelpFormatter
        subparser.add_argument(
            "--data",
            type=Path,
            metavar="FOLDER",
            help="folder with tasks.py; without it, data that ships with scikit-learn",
        )
        subparser.add_argument(
            "--repeat", type=int, default=5, help="timed runs (default %(default)s)"
        )
        subparser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers")
        study.add_arguments(subparser)
        subparser.set_defaults(run=study.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()

"""Readers on the files of shared tasks."""

import os
from pathlib import Path

import pytest

from sklearn_bundle.datasets import load_conll


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["conll2000", "conll2002_ned"])
def test_files_of_the_shared_tasks(tasks, name):
    folder = Path(os.environ["SKLEARN_BUNDLE_DATA"])
    for part, (sentences, tags) in tasks.load_sequences(name).items():
        assert load_conll(folder / f"{name}_{part}.txt.xz") == (sentences, tags)


@pytest.mark.realdata
def test_universal_dependencies(tasks):
    path = Path(os.environ["SKLEARN_BUNDLE_DATA"]) / "ud_en_ewt_dev.conllu.xz"
    ours = load_conll(
        path,
        columns=(1, 2, 4),
        target=3,
        separator="\t",
        comment="#",
        keep=lambda fields: fields[0].isdigit(),
    )
    assert ours == tasks.load_sequences("ud_en_ewt")["dev"]

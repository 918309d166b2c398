"""What stands in several files of a release is the same in all of them."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import sklearn_bundle

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RELEASE = runpy.run_path(str(ROOT / ".ci/release.py"))


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_conda_recipe_requires_what_the_package_requires():
    recipe = text(".github/conda/recipe.yaml")
    run = re.findall(r"^    - (\S+) (>=\S+)$", recipe.partition("  run:\n")[2], re.MULTILINE)
    wanted = [tuple(re.split("(?=>=)", name)) for name in PROJECT["project"]["dependencies"]]
    assert run == [("python", PROJECT["project"]["requires-python"]), *wanted]
    host = recipe.partition("  host:\n")[2].partition("  run:\n")[0]
    assert (
        "".join(re.search(r"(hatchling) (>=\S+)", host).groups())
        in PROJECT["build-system"]["requires"]
    )
    assert re.search(r'^  version: "(.+)"$', recipe, re.MULTILINE)[1] == sklearn_bundle.__version__


def test_every_version_of_python_is_tried_and_named():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    matrix = re.search(r"python: \[(.+)\]", text(".github/workflows/weekly.yml"))[1]
    tried = re.findall(r"\d\.\d+", matrix)
    assert tried[: len(named)] == named and len(tried) <= len(named) + 1
    page = " ".join(text("doc/install.rst").split())
    assert f"You need Python {', '.join(named[:-1])} or {named[-1]}." in page
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"`[^`<>]+ <([\w./]+)>`_", text("README.rst"))
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_extra_is_explained():
    extras = set(PROJECT["project"]["optional-dependencies"])
    table = re.findall(r"^``\.\[(\w+)\]``", text("doc/install.rst"), re.MULTILINE)
    readme = re.search(r"^Extras, .+?\n\n", text("README.rst"), re.DOTALL | re.MULTILINE)[0]
    assert set(table) == set(re.findall(r"``(\w+)``", readme)) == extras


def test_actions_are_pinned_by_hash():
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)(.*)", workflow.read_text(encoding="utf-8"))
        assert used
        for action, comment in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r"  # v\d+\.\d+\.\d+", comment), action


@pytest.mark.parametrize(
    "tag, changes, message",
    [
        ("v0.0.0", "", "but __version__ is"),
        ("v{}", "no heading", "must begin with the heading"),
        ("v{}", "9.9.9 (2026-01-01)\n------\n", "must begin with the heading"),
        ("v{}", "{} (not released)\n------\n", "needs the date"),
        ("v{}", "{} (2026-01-01)\n------\n", None),
    ],
)
def test_a_tag_has_to_be_that_of_version_and_changelog(tag, changes, message, tmp_path, capsys):
    version = sklearn_bundle.__version__
    (tmp_path / "sklearn_bundle").mkdir()
    init = (ROOT / "sklearn_bundle/__init__.py").read_text(encoding="utf-8")
    (tmp_path / "sklearn_bundle/__init__.py").write_text(init, encoding="utf-8")
    (tmp_path / "CHANGES.rst").write_text(changes.format(version), encoding="utf-8")
    main = RELEASE["main"]
    main.__globals__["ROOT"] = tmp_path
    if message is None:
        main(tag.format(version))
        assert capsys.readouterr().out == f"v{version}: version and changelog agree\n"
    else:
        with pytest.raises(SystemExit, match=message):
            main(tag.format(version))

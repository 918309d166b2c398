"""Configuration of the documentation: ``python -m sphinx -W doc doc/_build/html``."""

import inspect
import os
import re
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path

# The examples are run by sphinx-gallery; a window must never open.
os.environ.setdefault("MPLBACKEND", "Agg")

import sklearn_bundle.losses
from sklearn_bundle.core.docs import project_url

sys.path.insert(0, str(Path(__file__).parents[1] / ".ci"))
sys.path.insert(0, str(Path(__file__).parent))  # results.py
from docstrings import is_for_solvers

project = "sklearn-bundle"
author = "the sklearn-bundle developers"
copyright = "2026, the sklearn-bundle developers"
release = sklearn_bundle.__version__
version = release

extensions = [
    "results",  # measured figures
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/**.md5", "auto_examples/**.ipynb"]
templates_path = ["_templates"]
default_role = "literal"

# The pages work without a network: the one file of MathJax that draws formulas as SVG, without
# fonts, is copied from the distribution that bundles it. Its own Sphinx extension copies 24 MB.
MATHJAX = "mathjax/tex-svg.js"
mathjax_path = MATHJAX

# The button copies what is typed: no prompts, no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# API pages: one page per class, its methods on the page itself. What scikit-learn mixes in for
# metadata routing and callbacks is left out: its text refers to pages of scikit-learn.
autosummary_generate = True
# For doc/_templates/class.rst: the members of losses that are for solvers alone.
autosummary_context = {
    "for_solvers": {
        name: [member for member in dir(kind) if is_for_solvers(kind, member)]
        for name, kind in vars(sklearn_bundle.losses).items()
        if inspect.isclass(kind)
    }
}
numpydoc_show_class_members = False
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # the class's name would push the methods' out of sight
autodoc_default_options = {"member-order": "bysource"}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": [
        f"../examples/{topic}"
        for topic in ("tutorials", "start", "losses", "kernels", "structures", "scale")
    ],
    # The first is for a terminal, and CI runs it on its own; tutorials import the second, and the
    # page on adding losses shows the third.
    "ignore_pattern": r"(^|[/\\])(quickstart|texts|log_cosh)\.py",
    "within_subsection_order": "NumberOfCodeLinesSortKey",  # short ones first
    "download_all_examples": False,
    "write_computation_times": False,  # its page loads tables from other servers
}

# Every link within the site must lead somewhere; other projects' pages are not ours to check.
nitpicky = True
nitpick_ignore_regex = [(r"py:\w+", r"(matplotlib|numpy|scipy|sklearn)\.\w.*")]

html_theme = "pydata_sphinx_theme"
html_title = f"sklearn-bundle {release}"
html_theme_options = {
    "logo": {"text": "sklearn-bundle"},  # the version does not fit on a phone
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 6,  # up to the API reference; the rest folds into "More"
    "footer_start": ["copyright"],
    "footer_end": ["version"],
}
repository = project_url("Repository")
if repository is not None:
    link = {"name": "Repository", "url": repository, "icon": "fa-brands fa-git-alt"}
    html_theme_options["icon_links"] = [link]
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_sidebars = {name: [] for name in ("index", "install", "quickstart", "changes")}
html_show_sourcelink = False


def unlink_scikit_learn(app, what, name, obj, options, lines):
    """Turn references inside inherited docstrings into text: their targets are not on this site."""
    if getattr(obj, "__module__", "").startswith("sklearn."):
        text = re.sub(r":(?:ref|term):`([^`<]+?)\s*(?:<[^>`]+>)?`", r"\1", "\n".join(lines))
        lines[:] = text.split("\n")


def copy_mathjax(app):
    """Put MathJax beside the pages, before Sphinx writes the links to it."""
    if app.builder.format != "html":
        return
    bundled = distribution("sphinx-mathjax-offline")
    (source,) = (file for file in bundled.files if str(file).endswith("static/" + MATHJAX))
    target = Path(app.outdir, "_static", MATHJAX)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(bundled.locate_file(source), target)


def setup(app):
    app.connect("builder-inited", copy_mathjax)
    app.connect("autodoc-process-docstring", unlink_scikit_learn, priority=100)

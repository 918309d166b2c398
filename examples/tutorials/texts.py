"""Real texts for tutorials, without a download: docstrings, and sentences with names.

The docstrings are those of the installed scipy and scikit-learn. The sentences are in the file
``names.txt``, which says where they come from and has a licence of its own, CC BY-SA 4.0.
"""

import importlib
import inspect
import pkgutil
import re
import warnings
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A public function or class."""

    topic: str  # "scipy.signal"
    name: str  # "medfilt"
    text: str  # what the docstring says before its list of parameters
    see_also: frozenset[str]  # names that its authors list under "See Also"


def _sections(docstring):
    """The parts of a docstring, by their underlined titles; the first one has none."""
    parts = re.split(r"\n(\w[\w ]+)\n-{3,}\n", "\n" + docstring)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def docstrings():
    """An Entry per public function or class of scipy and scikit-learn that has a docstring."""
    entries, seen = [], set()
    for package in ("scipy", "sklearn"):
        path = importlib.import_module(package).__path__
        for module in sorted(info.name for info in pkgutil.iter_modules(path)):
            if module[0] == "_" or module in ("conftest", "tests"):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecated modules
                members = vars(importlib.import_module(f"{package}.{module}"))
            for name in sorted(set(members.get("__all__", ())) & set(members)):
                docstring = callable(members[name]) and inspect.getdoc(members[name])
                if not docstring or docstring in seen:
                    continue
                seen.add(docstring)
                sections = _sections(docstring)
                listed = re.findall(r"(?m)^([\w., ]+?)(?: ?:|$)", sections.get("See Also", ""))
                names = {part.strip().split(".")[-1] for line in listed for part in line.split(",")}
                text = re.sub(rf"\b{re.escape(name)}\b.*?\)\n", "", sections[""], count=1)
                entries.append(
                    Entry(f"{package}.{module}", name, text.strip(), frozenset(names - {""}))
                )
    return entries


def sentences_with_names():
    """Sentences as lists of words, and for each word "B" or "I" of a name, or "O" for none."""
    sentences, labels = [], []
    for line in Path(__file__).with_name("names.txt").read_text(encoding="utf-8").splitlines():
        if not line or line[0] == "#":
            continue
        words, tags, inside = [], [], False
        for token in line.split():
            begins = token[0] == "["
            tags.append("B" if begins else "I" if inside else "O")
            inside = (begins or inside) and token[-1] != "]"
            words.append(token.strip("[]"))
        sentences.append(words)
        labels.append(tags)
    return sentences, labels

"""``load_conll``: columns of text, blank lines between sequences."""

import bz2
import gzip
import io
import lzma

import pytest

from sklearn_bundle.datasets import load_conll

CONLL_2000 = """\
Boeing NNP B-NP
's POS B-NP
# # I-NP
747 CD I-NP

Rockwell NNP B-NP
said VBD B-VP
"""
SENTENCES = [
    [("Boeing", "NNP"), ("'s", "POS"), ("#", "#"), ("747", "CD")],
    [("Rockwell", "NNP"), ("said", "VBD")],
]
TAGS = [["B-NP", "B-NP", "I-NP", "I-NP"], ["B-NP", "B-VP"]]

CONLL_U = """\
# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_
1\tvamos\tir\tVERB\tx y
2\tnos\tnosotros\tPRON\t_
2.1\ttodos\ttodo\tPRON\t_

# sent_id = 2
1\ta\u00a0b\ta\tADP\t_
"""


@pytest.mark.parametrize(
    "name, compress",
    [
        ("a.conll", bytes),
        ("a.txt.gz", gzip.compress),
        ("a.txt.bz2", bz2.compress),
        ("a.txt.XZ", lzma.compress),
    ],
)
def test_files(tmp_path, name, compress):
    path = tmp_path / name
    path.write_bytes(compress(CONLL_2000.encode()))
    for given in (path, str(path)):
        assert load_conll(given) == (SENTENCES, TAGS)


def test_open_files_and_lines():
    files = io.StringIO(CONLL_2000), io.BytesIO(CONLL_2000.encode())
    lines = CONLL_2000.split("\n"), (line for line in CONLL_2000.splitlines(keepends=True))
    for file in (*files, *lines):
        assert load_conll(file) == (SENTENCES, TAGS)
        assert not getattr(file, "closed", False)


@pytest.mark.parametrize(
    "text",
    [
        "\n\n" + CONLL_2000.replace("\n\n", "\n \t\n\n") + "\n\n",
        CONLL_2000.replace("\n", "\r\n"),
        CONLL_2000.replace(" ", "\t"),
        CONLL_2000.replace(" ", "  ").replace("\n", " \n"),
        CONLL_2000.rstrip("\n"),
        "-DOCSTART- -X- O\n\n" + CONLL_2000.replace("\n\n", "\n-DOCSTART-\n"),
    ],
    ids=["empty lines", "CR", "tabs", "spaces", "no last newline", "docstart"],
)
def test_layouts(text, tmp_path):
    assert load_conll(io.StringIO(text, newline="")) == (SENTENCES, TAGS)
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    assert load_conll(path) == (SENTENCES, TAGS)


def test_columns():
    lines = CONLL_2000.split("\n")
    words, parts_of_speech = load_conll(lines, columns=[0], target=1)
    assert words[1] == [("Rockwell",), ("said",)]
    assert parts_of_speech[1] == ["NNP", "VBD"]
    assert load_conll(lines, target=0)[0][1] == [("NNP", "B-NP"), ("VBD", "B-VP")]
    sentences, tags = load_conll(lines, columns=(-2, 0, -1), target=-3)
    assert sentences[1][0] == ("NNP", "Rockwell", "B-NP")
    assert tags[1] == ["Rockwell", "said"]
    assert load_conll(["a b"], columns=())[0] == [[()]]


def test_conll_u():
    sentences, tags = load_conll(
        io.StringIO(CONLL_U),
        columns=[1, 2, 4],
        target=3,
        separator="\t",
        comment="#",
        keep=lambda fields: fields[0].isdigit(),
    )
    assert sentences == [
        [("vamos", "ir", "x y"), ("nos", "nosotros", "_")],
        [("a\u00a0b", "a", "_")],
    ]
    assert tags == [["VERB", "PRON"], ["ADP"]]


def test_words_are_cut_at_spaces_and_tabs_alone():
    odd = "a\u00a0b\u3000c\u2028d\x0be"
    assert load_conll([f"{odd} X\n"]) == ([[(odd,)]], [["X"]])
    assert load_conll(io.StringIO(f"{odd} X\n")) == ([[(odd,)]], [["X"]])


def test_nothing_in_it():
    assert load_conll([]) == load_conll(["", "-DOCSTART- O"]) == ([], [])


@pytest.mark.parametrize(
    "lines, parameters, message",
    [
        (["a b c", "", "a b"], {}, "Line 3 has 2 columns, but those before have 3: 'a b'"),
        (["a\tb", "a  b"], {"separator": "\t"}, "Line 2 has 1 columns"),
        (["", "a b"], {"target": 2}, "no column 2: line 2 has 2 columns"),
        (["a b"], {"columns": [0, -3]}, "no column -3: line 1 has 2 columns"),
    ],
)
def test_columns_that_are_not_there(lines, parameters, message):
    with pytest.raises(ValueError, match=message):
        load_conll(lines, **parameters)


# ---- encodings --------------------------------------------------------------------------------

LINES = "-DOCSTART- O\n\nHé O\nsaw O\n"
READ = ([[("Hé",), ("saw",)]], [["O", "O"]])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_mark_of_the_byte_order_is_no_text(tmp_path, encoding):
    path = tmp_path / "marked.conll"
    path.write_text(LINES, encoding="utf-8-sig")
    assert load_conll(path, encoding=encoding) == READ
    assert load_conll(path.read_bytes().splitlines(), encoding=encoding) == READ
    with path.open(encoding="utf-8") as file:
        assert load_conll(file) == READ


@pytest.mark.parametrize("n_before", [0, 5000], ids=["first block", "later block"])
def test_another_encoding_is_an_error_that_says_where(tmp_path, n_before):
    path = tmp_path / "old.conll.gz"
    path.write_bytes(gzip.compress(("plain O\n" * n_before + LINES).encode("latin-1")))
    with pytest.raises(ValueError, match=rf"^Line {n_before + 3} of .*old.conll.gz.* encoding='"):
        load_conll(path)
    load_conll(path, encoding="latin-1")

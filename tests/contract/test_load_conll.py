"""Encodings of the files that load_conll reads."""

import gzip

import pytest

from sklearn_bundle.datasets import load_conll

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


def test_another_encoding_of_lines_of_bytes():
    with pytest.raises(ValueError, match=r"^Line 3 is not utf-8.* encoding='"):
        load_conll(LINES.encode("latin-1").splitlines())

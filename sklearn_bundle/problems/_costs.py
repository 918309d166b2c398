"""What work costs in passes over X, the unit in which methods are compared."""

# A Cholesky factorization takes as long as a pass over side^3 / 48 entries of X: side^3 / 6
# multiplications with additions, eight of them side by side.
_FACTORISATION = 48.0
_LEAST_ENTRIES = 1 << 17  # passes over fewer take as long, since calls take time too
CHEAP_FACTORISATION = 0.25  # passes; with more, steps on samples of the rows cost too much


def entries_of_pass(n_entries: int) -> int:
    """Entries that a pass over so many stored ones takes as long as."""
    return max(n_entries, _LEAST_ENTRIES)


def factorisation(side: int, n_entries: int) -> float:
    """Passes that the Cholesky factorization of a matrix with so many rows takes as long as."""
    return side**3 / (_FACTORISATION * entries_of_pass(n_entries))

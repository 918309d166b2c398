"""The cost of work in passes over X, the unit in which methods are compared."""

# A Cholesky factorization takes as long as a pass over side^3 / 12 entries of X: side^3 / 6
# multiplications with additions, two at a time, since small matrices are slower than large ones.
_FACTORISATION = 12.0
_LEAST_ENTRIES = 1 << 17  # passes over fewer entries take as long, since calls take time too
CHEAP_FACTORISATION = 1.0  # passes; if it costs more, steps on samples of the rows are too slow


def entries_of_pass(n_entries: int) -> int:
    """The size of a pass over ``n_entries`` stored entries, for comparing times."""
    return max(n_entries, _LEAST_ENTRIES)


def factorization(side: int, n_entries: int) -> float:
    """The time of a Cholesky factorization of a matrix with ``side`` rows, in passes."""
    return side**3 / (_FACTORISATION * entries_of_pass(n_entries))

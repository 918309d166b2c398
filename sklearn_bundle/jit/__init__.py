"""numba: the decorator, its cache, and compiled vectors, sums and random numbers."""

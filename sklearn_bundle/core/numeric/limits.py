"""Numbers that many solvers share: each is a limit or a unit of rounding, and no tuning knob.

Half and twice each of them changes the work of no fit that was tried by more than 5 %.
"""

TINY = 1e-300  # in place of a 0 in a denominator or a logarithm: far below any number of data
LAST_PLACE = 1e-15  # of the sizes of a sum's terms: a few units in the last place of a double
IDLE_LIMIT = 10  # steps without progress, after which only rounding is left
MOST_STEPS = 500  # of an inner loop, which usually ends after a few dozen: a limit for safety
MOST_SIDE = 2000  # of a matrix to factor: 32 MB, about 0.1 s

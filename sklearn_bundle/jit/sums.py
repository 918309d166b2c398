"""Sums whose rounding does not grow with the number of their terms."""

from sklearn_bundle.jit.decorators import inner


@inner
def added(total, carry, term):
    """``total + term``, and ``carry`` plus its rounding error (Knuth, without branches).

    After any number of terms the error of ``total + carry`` is one unit in the last place of the
    result plus the square of the unit times the number of terms times the sum of their absolute
    values.
    """
    result = total + term
    of_term = result - total
    return result, carry + ((total - (result - of_term)) + (term - of_term))

"""The unit roundoffs: one rounding to nearest is off by at most this share of the result."""

SINGLE = 2.0**-24  # of float32
DOUBLE = 2.0**-53  # of float64

"""Small problems inside a solver's step."""

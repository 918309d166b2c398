"""Data bound to a formulation: the only floor that holds X and y."""

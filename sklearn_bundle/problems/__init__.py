"""Data bound to a formulation: the lowest layer that holds X and y."""

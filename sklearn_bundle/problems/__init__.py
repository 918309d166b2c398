"""Data bound to a formulation: as far down as X and y go."""

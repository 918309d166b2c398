"""Output structures: features, inference and loss; no solver and no data."""

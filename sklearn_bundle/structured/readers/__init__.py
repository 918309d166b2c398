"""From the user's X and y to the examples of a model."""

"""The small problems inside the steps of a bundle method."""

"""Compiled functions of the projection onto a box and a hyperplane."""

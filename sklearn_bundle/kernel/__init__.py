"""Kernel machines: squared hinge and squared tube losses by Frank-Wolfe methods."""

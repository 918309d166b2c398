"""Searches and factorizations that several floors share."""

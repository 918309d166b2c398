"""Searches and factorizations that several layers share."""

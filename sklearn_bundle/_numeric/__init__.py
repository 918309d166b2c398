"""Searches and factorisations that several floors share."""

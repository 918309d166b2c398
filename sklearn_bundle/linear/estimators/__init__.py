"""BMRM estimators, PragamSVC and their searches."""

"""Time, memory and certificates of sklearn_bundle over its history, measured by asv."""

"""The data matrix as an operator: in memory, on disk, on workers."""

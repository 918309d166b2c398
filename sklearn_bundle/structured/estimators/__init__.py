"""StructuredSVM."""

"""The methods that minimize a structured risk."""

"""One algorithm per file; each yields states, and ``contract.run`` decides when to stop."""

"""One algorithm a file; each yields states, and ``_run`` decides when to stop."""

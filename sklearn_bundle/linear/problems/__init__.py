"""Data and loss together: scores, values, slopes, planes, duals."""

"""The methods that solve the duals of kernel machines."""

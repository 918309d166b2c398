"""The duals of the L2-SVM and of its tube form."""

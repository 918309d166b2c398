"""What every fit needs: the fit, the stopping rule, the certificate, input, searches, threads."""

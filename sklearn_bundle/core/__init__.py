"""What every fit needs: from checked parameters and data to the certificate."""

"""The methods that fit a chain CRF; `chain_auto` chooses."""

"""From the user's sequences to packed arrays: checks, features, labels."""

"""Events: reading, validating, splitting and summarizing them."""

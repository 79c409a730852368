"""Events: reading, validating, splitting and summarising them."""

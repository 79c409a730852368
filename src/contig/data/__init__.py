"""Events: reading, checking, splitting and describing them."""

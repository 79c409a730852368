"""What trained models are asked to do, and how well they do it."""

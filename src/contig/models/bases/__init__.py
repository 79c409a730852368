"""Base classes and parts that several models share."""

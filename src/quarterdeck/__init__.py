"""A control plane and a crew of workers for analytical queries over a data lake."""

__version__ = "0.1.0"

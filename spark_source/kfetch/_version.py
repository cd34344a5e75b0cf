"""The version, where every layer may ask for it."""

__version__ = "0.1.0"

"""The version, where every layer may ask for it."""

__version__ = "0.2.0"

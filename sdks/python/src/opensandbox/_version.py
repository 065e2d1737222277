"""The version of this SDK; the one place that states it."""

__version__ = "1.2.0"

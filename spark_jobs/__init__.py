"""Tidemark's jobs: landing, scaffolding, checking and the commands around them."""

__version__ = "0.1.0"

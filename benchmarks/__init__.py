"""Measures of where time goes; no part of the product."""

"""Checks of a family, from one whole file to listeners over HTTP."""

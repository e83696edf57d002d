"""Conversion of written answers to spoken text: markdown, code, addresses, emoji."""

"""Model families: one folder each, one line each in the registry."""

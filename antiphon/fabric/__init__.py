"""Fabrics, which run stages in this process or as replicas elsewhere."""

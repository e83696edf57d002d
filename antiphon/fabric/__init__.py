"""Where stages run: in this process, or as replicas elsewhere."""

"""Wire models; each request model converts itself by `to_domain`."""

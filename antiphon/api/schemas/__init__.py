"""What goes over the wire; each request model knows its way `to_domain`."""

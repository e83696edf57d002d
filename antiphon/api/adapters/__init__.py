"""Other vendors' protocols, so that their clients work when they are given this server's URL."""

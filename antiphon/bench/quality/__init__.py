"""How speech sounds: what is understood, who is heard, how good it seems, and what is broken."""

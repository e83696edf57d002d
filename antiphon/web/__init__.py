"""The page that a server shows to people: type a text, hear it as it is made."""

"""Page of a server: type a text, and its speech plays as it is generated."""

"""The command line: a small module a command; nothing heavy is imported for ``--help``."""

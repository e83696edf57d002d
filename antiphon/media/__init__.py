"""Pictures as files: what requests refer to, and what is made of frames."""

"""Code that runs on a CPU only, in place of what a GPU does otherwise."""

"""Control plane: the replicas that run, the processes that run them, and who uses them."""

"""Wire protocol between processes: one multiplexed connection for each pair of them."""

"""How processes that serve one model talk: one multiplexed connection for each pair of them."""

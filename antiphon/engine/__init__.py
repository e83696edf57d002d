"""The autoregressive engine: the scheduler plans, the runner computes, the scheduler updates."""

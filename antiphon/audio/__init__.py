"""Audio after the model, as streams: stretching, resampling, encoding."""

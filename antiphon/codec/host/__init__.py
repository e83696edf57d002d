"""Decoders on the host, beside the model that makes their frames."""

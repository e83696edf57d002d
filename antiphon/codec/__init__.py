"""Streaming decoders: frames in, audio out, state carried."""

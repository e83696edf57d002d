"""Types and protocols that the engine, codecs, stages, fabrics and families share."""

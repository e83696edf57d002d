"""Chat models in GGUF files: configuration, tokenizer and tensors in the terms of the family."""

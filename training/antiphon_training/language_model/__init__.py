"""Language model of the voice: tokenizer, data, training, export and its judgement."""

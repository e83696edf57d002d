"""A demonstration in Gradio: a client of any Antiphon server, for a browser."""

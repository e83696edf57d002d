"""What is written for the eye, made fit for the ear: markdown, code, addresses, emoji."""

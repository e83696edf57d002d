"""Images and videos: checked and completed requests, and their models."""

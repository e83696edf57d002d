"""Long work in the background: speech and videos."""

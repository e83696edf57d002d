"""Between the event loop and the web framework: connections, HTTP, WebSocket."""

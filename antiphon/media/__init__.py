"""Files that the server makes and keeps."""

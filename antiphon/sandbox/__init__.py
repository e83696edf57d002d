"""Work on untrusted bytes in processes without rights."""

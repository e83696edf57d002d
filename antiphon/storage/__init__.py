"""Data on disk: databases, blobs, the ledger of jobs, backups."""

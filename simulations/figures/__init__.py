"""Pictures, tables and files that all reports share."""

"""The server side: what collects, checks and aggregates."""

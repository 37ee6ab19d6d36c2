"""What a run's directory shows: a table, figures, and a page to look at. All of it comes from the records."""

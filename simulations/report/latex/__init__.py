"""What a paper takes from a report: figures as PDF, tables, captions and the references of what was used."""

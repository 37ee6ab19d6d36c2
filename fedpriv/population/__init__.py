"""Who is asked in a round, and how records are dealt to clients."""

"""A grid of studies: which cells it has, where they are kept, and how they are run side by side."""

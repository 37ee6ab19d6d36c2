"""What a node keeps on its own disk, whatever keeps it company: what it was asked, and what it has given away."""

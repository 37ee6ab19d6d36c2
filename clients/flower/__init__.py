"""The worker of a deployed node, which keeps everything loaded between Flower's messages."""

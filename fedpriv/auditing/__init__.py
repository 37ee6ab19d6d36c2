"""What counted guesses of an attacker prove, and which pairs of inputs they are about."""

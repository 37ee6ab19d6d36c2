"""What an attacker really learns: canaries, trials and their verdict, of a study, a run or a deployed node."""

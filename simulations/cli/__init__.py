"""The subcommands of `fedpriv`, a module each."""

"""What the project's own upkeep needs, and nothing that runs: pages whose tables come from the code."""

"""What was released, and what it costs: events, accounts, calibration, ledgers."""

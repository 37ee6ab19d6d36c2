"""The figures and tables of [P]: what propose-test-release costs, and what it learns."""

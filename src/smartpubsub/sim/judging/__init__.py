"""What a run was to do and what it did: journal, oracle, checkers, result."""

"""The judgement of a run: journal, oracle, checkers, result."""

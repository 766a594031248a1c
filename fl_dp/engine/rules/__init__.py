"""Rules: one file for each family of operators, and nothing else. Its `RULES` names these operators."""

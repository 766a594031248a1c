"""One file for each family of operators, and nothing else: its `RULES` names the operators it covers."""

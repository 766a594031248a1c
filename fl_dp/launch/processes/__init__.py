"""The processes of one launch: started with an environment of their own, logged, watched, and ended."""

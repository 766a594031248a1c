"""The processes of one launch: started in their own environment, logged, watched and stopped."""

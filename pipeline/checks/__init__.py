"""What is looked at before and after a run, and what its user is warned of."""

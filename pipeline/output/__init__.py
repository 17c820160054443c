"""What is written beside the clusters, by one run at a time."""

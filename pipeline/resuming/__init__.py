"""What a run leaves to be gone on from, and how another goes on."""

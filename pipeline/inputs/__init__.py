"""What is given to a run beside its archive: the pedestal and the pixels to leave out."""

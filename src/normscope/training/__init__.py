"""One loop for every method: it owns epochs, precision, device, progress, checkpoints, seeds and health."""

"""Values that stay at workers: which are there, who needs them, and their way from worker to worker."""

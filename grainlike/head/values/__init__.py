"""Driver of values that stay at workers: copies bytes between workers, brings them to programs, and drops them."""

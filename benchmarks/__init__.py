"""What the numbers in the documentation come from; `python -m benchmarks` runs them."""

"""Arguments of calls that are sent before their inputs are there."""

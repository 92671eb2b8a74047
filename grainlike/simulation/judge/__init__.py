"""Judge of the simulation: its own books of what truly happens, held against what the schedulers say."""

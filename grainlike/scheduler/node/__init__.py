"""Node scheduler: grants concrete ids on one node, and ends what is to end there."""

"""Commands that start a head: in the foreground, or in the background with a log of its own."""

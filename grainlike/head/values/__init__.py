"""Values that stay at workers, as the head drives them: which bytes are copied, brought here and dropped."""

"""Commands that stay on the screen, and show what changes.

Answers: how a listing is shown again and again (`_watch`), and `top` (`_top`).
"""

"""Commands about pools of workers, and their blocks.

Answers: which pool `up` means, and what it would submit (`_choice`, which asks no head); how a pool is set, changed,
looked at and taken down at a head (`_pools`).
"""

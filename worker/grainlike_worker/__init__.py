"""The body of one node: it owns the node's slots and runs jobs in processes of their own.

Answers: how a job that was granted slots is run there, held to them, watched, and ended. Never decides which job runs
(`grainlike.scheduler`), and never runs or unpickles user code in the daemon itself. Started by name, never imported.
"""

"""The body of one node: it owns the node's slots and runs jobs in processes of their own.

Answers: how a job that was granted slots is run there, held to them, watched, and ended (`_daemon` and `_runner_link`
on the daemon's side, `_own` and `_shared` in a runner's process, `keeper` in the process that is the runners' parent),
and what it wrote (`_outputs`).

Never decides which job runs (`grainlike.scheduler`), and never runs or unpickles user code in the daemon itself.
Started by name, never imported, inside a user's process too (`embedded`). Neighbours: the head, at the other end of a
link.
"""

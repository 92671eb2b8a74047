"""The body of one node: it owns the node's slots and runs jobs in processes of their own.

Answers: how a worker connects to a head, runs jobs in runners and reports their ends (`daemon`), how runners are
started, watched and swept up by their parent process (`keeper`), how a job is run in a process of its own
(`runner.process`) or on an event loop for many (`runner.loop`), what pages of memory and messages these share (`ipc`),
and what Linux gives for it (`linux`).

Never decides which job runs (`grainlike.scheduler`), and never runs or unpickles user code in the daemon itself.
Started by name, never imported, inside a user's process too (`embedded`). Neighbours: the head, at the other end of a
link.
"""

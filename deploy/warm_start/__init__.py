"""Tasks that start warm: a server with FATE imported forks each task's process, instead of Python starting anew.

In the order in which things happen: `deploy/fate_patches/warm_handover.py` offers a task's process to the fork server,
`fork_server` forks and watches over the child, `worker` makes the child that process, `inheritance` gives it random
numbers of its own. `preload` says what is imported before, and when that is out of date; `control` is what
`fate-dp up`, `status` and `doctor` use.
"""

"""Carrying out a plan of what may go: what was approved and is unchanged moves to a trash folder beside where it lay, may
come back, and is deleted once it lay there long enough. Nothing else is moved or deleted.

``places`` opens paths without following a link, ``listing`` lists what lies there, ``content`` reads and deletes it,
``trash`` is where it goes, ``writers`` tells whether a program writes to it, ``tombstones`` say in its place what became of
it, ``journal`` keeps each step before it is done, ``lists`` what a folder held whose deletion was begun, ``server`` asks and
tells, ``moving``, ``restoring`` and ``emptying`` are the three things that can be done, ``mending`` goes on behind a kill at
any step of theirs, ``carrying`` is one call of the command.
"""

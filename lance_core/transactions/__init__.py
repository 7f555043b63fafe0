"""Transactions: describes changes to a table, and commits them.

Start with ``optimistic_commit``, which performs the steps of a commit. ``transaction`` defines the record of a change;
``operations/`` has a module for each kind of change, listed in ``registry``; ``public_transaction`` defines the public
classes, and looks up what users leave out. ``basis`` reads the versions committed since the change was planned, and
checks the change for conflicts with them: ``conflicts`` contains the matrix, and ``clashes`` contains the rules that
depend on the content of the operations; both return a ``verdict``. ``delete_rebase`` merges deletes in the same
fragments. ``overtaken`` determines whether a version became part of the table, and ``restoring`` protects a version
that is being restored. ``options`` and ``outcomes`` define the input and the result of a commit; ``backoff`` computes
the waiting times between attempts; ``detached`` creates versions outside the history of a branch.
"""

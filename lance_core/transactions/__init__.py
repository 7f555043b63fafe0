"""Transactions: describe a change to a table, and commit it.

Start with ``commit_steps``, which performs the steps of a commit. ``transaction`` is the record of a change;
``operations/`` has a module for each kind of change, listed in ``registry``; ``public_transaction`` has the form that
users see. ``basis`` reads the versions since the change was planned, and checks the change for conflicts with them:
``conflicts`` has the matrix, and ``clashes`` the rules that depend on content; both return a ``verdict``.
``delete_rebase`` merges deletes of the same fragments. ``history`` recognizes transactions that were committed before,
``overtaken`` determines whether a version became part of the table, and ``restoring`` protects a version that is being
restored. ``settings`` and ``outcomes`` are the input and the result of a commit; ``backoff`` computes the waiting times
between attempts; ``detached`` commits outside the lineage.
"""

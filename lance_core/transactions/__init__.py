"""Transactions: describe a change to a table, and commit it.

Start with ``commit_steps``, which goes through the steps of a commit. ``transaction`` is the record of a change;
``operations/`` has a module for each kind of change, listed in ``registry``; ``public_transaction`` has the form that
users see. ``basis`` reads the versions since the change was planned and judges it by ``conflicts`` (the matrix) and
``clashes`` (the rules that depend on content, which give a ``verdict``); ``delete_rebase`` merges deletes of the same
fragments. ``history`` recognizes transactions that were committed before, ``overtaken`` finds out whether a version
became part of the table, and ``restoring`` protects one that is being restored. ``settings`` and ``outcomes`` are what
a commit is given and what it returns; ``backoff`` is the wait between attempts; ``detached`` commits outside the
lineage.
"""

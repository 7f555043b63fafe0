"""Protocols that create versions: one per module, behind one interface.

=================  ====================================================================================================
``conditional``    the store creates the manifest only if it is absent; the default
``locked``         the caller's lock is held while the manifest is looked for and written
``external``       another store decides who makes a version; the manifest follows, and any reader can finish a commit
=================  ====================================================================================================
"""

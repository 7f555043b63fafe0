"""Protocols for creating versions: one per module, with a common interface.

=================  ====================================================================================================
``conditional``    the store creates the manifest only if it is absent; the default
``locked``         the caller's lock is held while the manifest is checked and written
``external``       another store decides who creates a version; any reader can then finish the commit
=================  ====================================================================================================
"""

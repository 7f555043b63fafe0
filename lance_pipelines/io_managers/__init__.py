"""The IO manager and the resource with which assets store what they return, and load what others have stored.

``LanceIOManager`` stores and loads data frames for the assets; with ``LanceTableResource``, an asset does so itself.
"""

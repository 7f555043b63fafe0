"""How assets store what they return, and load what others have stored: the IO manager, and the resource beside it.

``LanceIOManager`` stores and loads for the assets; with ``LanceTableResource``, an asset does it itself.
"""

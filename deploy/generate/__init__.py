"""Files that are made from code: protobuf modules, the Procfile, the sample fleet file, pages.

Imports what it describes. Nothing imports it but tests.
"""

"""The forward passes of this worker, one module per family.

Each has a network that maps token ids and lengths of rows, padded on the right, to the last hidden
states. Imports nothing of the worker's other modules, which add pooling and scoring.
"""

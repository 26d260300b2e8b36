"""The forward passes this worker knows, one module per family.

Each offers a network whose call takes token ids and the lengths of rows padded on the right, and
gives the last hidden states. What is made of those (pooling, heads) is the rest of the worker's.
"""

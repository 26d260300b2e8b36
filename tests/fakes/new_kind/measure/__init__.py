"""A made-up kind of worker that measures the length of texts: its folder and its route module."""

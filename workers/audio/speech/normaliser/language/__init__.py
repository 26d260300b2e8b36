"""The languages that texts are written out in: one module for each, and what they share."""

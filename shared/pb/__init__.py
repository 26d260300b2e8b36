"""Generated from proto/ by `make proto`; a test regenerates and compares. Not edited by hand."""

"""Reading tool calls out of generated text: the machinery, its readers and one module per format.

Pure; imports no model library and nothing else of the text worker. May be imported by the answer
room and by the command `parse`.
"""

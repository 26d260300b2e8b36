"""One module per subcommand of `mlxcel-server`.

May be imported by the command line alone.
"""

"""What the wheel installs; the server's own packages lie in its folder `_app`."""

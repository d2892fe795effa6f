"""oombot: says which memory mechanism stopped an inference server, and carries out an approved fix."""

__version__ = "0.1.0"

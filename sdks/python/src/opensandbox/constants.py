"""Ports that every sandbox serves."""

DEFAULT_EXECD_PORT = 44772
DEFAULT_EGRESS_PORT = 18080

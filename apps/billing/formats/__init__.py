"""Formats of billing exports, one module each. Pure."""

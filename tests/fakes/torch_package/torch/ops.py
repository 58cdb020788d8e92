class aten:  # noqa: N801 - torch's name
    """Without fused attention."""

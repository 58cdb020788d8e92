from typing import Any


def shell(request: Any) -> dict[str, Any]:
    return {}

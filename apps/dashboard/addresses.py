"""Addresses of pages, found once: a page with many figures asks for the same ones hundreds of
times.
"""

from functools import lru_cache
from typing import Any

from django.urls import get_script_prefix, reverse


def address(name: str, *args: Any) -> str:
    """Return the address of a page, as :func:`django.urls.reverse` does."""
    return _address(get_script_prefix(), name, args)


@lru_cache(maxsize=10_000)
def _address(prefix: str, name: str, args: tuple[Any, ...]) -> str:
    return reverse(name, args=args)

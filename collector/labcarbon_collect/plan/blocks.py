"""Head and blocks of a model, found in the order in which it calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, List, Sequence, Tuple

Named = Tuple[str, Any]


@dataclass(frozen=True)
class ModelParts:
    """The parts of a model that are trained or checkpointed as a whole."""

    parts: Tuple[Named, ...]  # with parameters, in the order of the calls
    blocks: Tuple[Named, ...]  # those with modules inside that are members of a container
    sequences: Tuple[Named, ...]  # outermost nn.Sequential

    @property
    def head(self) -> Named:
        return self.parts[-1]

    def last_blocks(self, count: int) -> Tuple[Named, ...]:
        """Return the last blocks and all parts after them. Without blocks, each part before the
        head is one.
        """
        names = [name for name, _ in self.parts]
        start = names.index(self.countable[-count][0])
        return self.parts[start:]

    @property
    def countable(self) -> Tuple[Named, ...]:
        return self.blocks or self.parts[:-1]


def find_parts(torch: Any, model: Any, called: Sequence[str]) -> ModelParts:
    """Divide a model into parts. ``called`` are the names of its modules in the order of their
    first call.
    """
    found = [
        (_first_call(name, called), name, module, in_container)
        for name, module, in_container in _parts(torch, "", model, False)
        if next(module.parameters(), None) is not None
    ]
    found.sort(key=lambda part: part[0])
    return ModelParts(
        parts=tuple((name, module) for _, name, module, _ in found),
        blocks=tuple(
            (name, module)
            for _, name, module, in_container in found
            if in_container and next(module.children(), None) is not None
        ),
        sequences=tuple(_sequences(torch, "", model)),
    )


def _parts(
    torch: Any, name: str, module: Any, in_container: bool
) -> Iterator[Tuple[str, Any, bool]]:
    is_divided = not name or type(module) in _containers(torch) or _contains_blocks(torch, module)
    if not is_divided or next(module.children(), None) is None:
        yield name, module, in_container
        return
    for child_name, child in module.named_children():
        yield from _parts(
            torch,
            _join(name, child_name),
            child,
            isinstance(module, _containers(torch)),
        )


def _contains_blocks(torch: Any, module: Any) -> bool:
    containers = _containers(torch)
    return any(
        not isinstance(child, containers) and next(child.children(), None) is not None
        for inner in module.modules()
        if isinstance(inner, containers)
        for child in inner.children()
    )


def _sequences(torch: Any, name: str, module: Any) -> Iterator[Named]:
    if type(module) is torch.nn.Sequential:
        yield name, module
        return
    for child_name, child in module.named_children():
        yield from _sequences(torch, _join(name, child_name), child)


def _first_call(name: str, called: Sequence[str]) -> int:
    """Return the position of the first call, -1 for a part that is not called."""
    for position, other in enumerate(called):
        if other == name or other.startswith(f"{name}."):
            return position
    return -1


def _containers(torch: Any) -> Tuple[Any, ...]:
    nn = torch.nn
    containers: List[Any] = [nn.Sequential, nn.ModuleList, nn.ModuleDict]
    return tuple(containers)


def _join(name: str, child: str) -> str:
    return f"{name}.{child}" if name else child

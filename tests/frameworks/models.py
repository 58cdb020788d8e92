"""Six small models of different kinds, whose training steps take seconds on a CPU.

Each kind states its head, its last block and its blocks itself, so that the measured steps do not
depend on how the dry run finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torchvision.models import MobileNetV3, ResNet, VisionTransformer, mobilenet_v3_small
from torchvision.models.resnet import BasicBlock

VOCABULARY, LENGTH = 4000, 64


class _MlpBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.dropout = nn.Dropout(0.1)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.dropout(torch.relu(self.linear(value)))


class Mlp(nn.Module):
    """Large weights, small outputs."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [256, 1024, 1024, 1024]
        self.blocks = nn.ModuleList(map(_MlpBlock, sizes, sizes[1:]))
        self.head = nn.Linear(sizes[-1], 10)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            value = block(value)
        return self.head(value)


class Cnn(nn.Module):
    """As AlexNet: convolutions in place, then large linear layers."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in [(3, 32), (32, 64), (64, 128)]:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            *(nn.Dropout(0.5), nn.Linear(2048, 1024), nn.ReLU(inplace=True)),
            *(nn.Dropout(0.5), nn.Linear(1024, 1024), nn.ReLU(inplace=True)),
            nn.Linear(1024, 10),
        )

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.features(value), 1))


class _GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        batch, length, width = value.shape
        parts = self.qkv(self.norm1(value)).view(batch, length, 3, self.heads, -1)
        query, key, values = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, values, is_causal=True)
        value = value + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return value + self.mlp(self.norm2(value))


class Gpt(nn.Module):
    """A language model whose head shares its weights with the embedding."""

    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(_GptBlock(width, 4) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        value = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            value = block(value)
        return self.head(self.norm(value))


def resnet() -> ResNet:
    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)


def mobilenet() -> MobileNetV3:
    return mobilenet_v3_small(num_classes=10)


def vit() -> VisionTransformer:
    return VisionTransformer(
        image_size=32,
        patch_size=4,
        num_layers=4,
        num_heads=4,
        hidden_dim=128,
        mlp_dim=512,
        dropout=0.1,
        num_classes=10,
    )


@dataclass(frozen=True)
class Kind:
    """One model and its parts."""

    name: str
    build: Callable[[], nn.Module]
    input: str  # as of --input
    blocks: Callable[[nn.Module], Sequence[nn.Module]]
    last_block: Callable[[nn.Module], Sequence[nn.Module]]  # with all parts after it
    head: Callable[[nn.Module], nn.Module]


KINDS = (
    Kind(
        *("mlp", Mlp, "256"),
        blocks=lambda model: model.blocks,
        last_block=lambda model: [model.blocks[-1], model.head],
        head=lambda model: model.head,
    ),
    Kind(
        *("cnn", Cnn, "3x32x32"),
        blocks=lambda model: [model.features, model.classifier],
        last_block=lambda model: [model.classifier[4], model.classifier[6]],
        head=lambda model: model.classifier[6],
    ),
    Kind(
        *("resnet", resnet, "3x64x64"),
        blocks=lambda model: [
            *(model.layer1[0], model.layer2[0]),
            *(model.layer3[0], model.layer4[0]),
        ],
        last_block=lambda model: [model.layer4, model.fc],
        head=lambda model: model.fc,
    ),
    Kind(
        *("mobilenet", mobilenet, "3x64x64"),
        blocks=lambda model: model.features,
        last_block=lambda model: [model.features[-1], model.classifier],
        head=lambda model: model.classifier[3],
    ),
    Kind(
        *("vit", vit, "3x32x32"),
        blocks=lambda model: model.encoder.layers,
        last_block=lambda model: [model.encoder.layers[-1], model.encoder.ln, model.heads],
        head=lambda model: model.heads,
    ),
    Kind(
        *("gpt", Gpt, f"tokens:{LENGTH}:vocab={VOCABULARY}"),
        blocks=lambda model: model.blocks,
        last_block=lambda model: [model.blocks[-1], model.norm, model.head],
        head=lambda model: model.head,
    ),
)

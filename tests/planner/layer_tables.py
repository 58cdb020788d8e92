"""Layer tables of well-known models, written from their papers and from torchvision."""

# LeNet of the lesson: no padding, linear layers without bias.
LENET = """
conv 6 5x5
relu
max pool 2x2
conv 16 5x5
relu
max pool 2x2
linear 120 no bias
relu
linear 60 no bias
relu
linear 10 no bias
relu
"""

# Krizhevsky et al. 2012 on one card: without the two groups of the original.
ALEXNET_2012 = """
conv 96 11x11 stride 4
relu
lrn 5
max pool 3x3 stride 2
conv 256 5x5 pad 2
relu
lrn 5
max pool 3x3 stride 2
conv 384 3x3 pad 1
relu
conv 384 3x3 pad 1
relu
conv 256 3x3 pad 1
relu
max pool 3x3 stride 2
linear 4096
relu
linear 4096
relu
linear 1000
"""

ALEXNET_TORCHVISION = """
conv 64 11x11 stride 4 pad 2
relu
max pool 3x3 stride 2
conv 192 5x5 pad 2
relu
max pool 3x3 stride 2
conv 384 3x3 pad 1
relu
conv 256 3x3 pad 1
relu
conv 256 3x3 pad 1
relu
max pool 3x3 stride 2
adaptive pool 6x6
dropout
linear 4096
relu
dropout
linear 4096
relu
linear 1000
"""

VGG16 = "\n".join(
    line
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    for line in (*(f"conv {channels} 3x3 pad 1\nrelu",) * count, "max pool 2x2")
) + ("\nadaptive pool 7x7\nlinear 4096\nrelu\ndropout\nlinear 4096\nrelu\ndropout\nlinear 1000")

# Dosovitskiy et al. 2021: 16 × 16 patches, 12 blocks.
VIT_B_16 = """
conv 768 16x16 stride 16
tokens
class token
start: positions
repeat 12
layer norm
attention 12
sum: add with start
layer norm
linear 3072
gelu
linear 768
start: add with sum
end
layer norm
first token
linear 1000
"""


def _bottleneck(index: int, width: int, stride: int, is_first: bool) -> str:
    """One block of ResNet-50 (He et al. 2016, stride at the 3 × 3 convolution)."""
    lines = [
        f"conv {width} 1x1 no bias from in{index}", "batch norm", "relu",
        f"conv {width} 3x3 stride {stride} pad 1 no bias", "batch norm", "relu",
        f"conv {4 * width} 1x1 no bias", f"body{index}: batch norm",
    ]  # fmt: skip
    if is_first:
        lines += [f"conv {4 * width} 1x1 stride {stride} no bias from in{index}", "batch norm"]
        lines += [f"add with body{index}"]
    else:
        lines += [f"add with in{index}"]
    return "\n".join([*lines, f"in{index + 1}: relu"])


def resnet50() -> str:
    """Return ResNet-50."""
    lines = ["conv 64 7x7 stride 2 pad 3 no bias", "batch norm", "relu"]
    lines.append("in0: max pool 3x3 stride 2 pad 1")
    index = 0
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(count):
            lines.append(_bottleneck(index, width, stride if block == 0 else 1, block == 0))
            index += 1
    return "\n".join([*lines, "adaptive pool 1x1", "linear 1000"])

"""The models that come with ringroad, as torchvision and Hugging Face build them: parameters of every layer, and the
floating-point operations of its forward pass for one sample (a multiplication and its addition are two; normalisation,
activations and pooling do not count). A convolution and its batch normalisation are one layer."""

from collections.abc import Callable, Sequence
from typing import Any

_THROUGHPUT = 20e12
_ASSUMED = (
    f"Seconds are computed from flops at an assumed {_THROUGHPUT / 1e12:.0f} TFLOP/s. "
    "Measure your own model for real ones."
)
Layers = list[dict[str, Any]]
Size = int | tuple[int, int]
Place = tuple[int, int, int]


class Net:
    """The layers so far, and the size of the next layer's input."""

    def __init__(self, channels: int = 3, pixels: int = 224) -> None:
        self.channels, self.height, self.width = channels, pixels, pixels
        self.layers: Layers = []

    def add(self, name: str, parameters: int, flops: int) -> None:
        self.layers.append({"name": name, "parameters": parameters, "flops": flops})

    def conv(
        self,
        name: str,
        out: int,
        kernel: Size,
        *,
        stride: int = 1,
        pad: Size = 0,
        groups: int = 1,
        bias: bool = False,
        norm: bool = True,
    ) -> None:
        """A convolution with a square kernel, or (height, width)."""
        (kh, kw), (ph, pw) = pair(kernel), pair(pad)
        self.height = (self.height + 2 * ph - kh) // stride + 1
        self.width = (self.width + 2 * pw - kw) // stride + 1
        weights = out * (self.channels // groups) * kh * kw
        self.add(name, weights + out * bias + 2 * out * norm, 2 * weights * self.height * self.width)
        self.channels = out

    def pool(self, kernel: int, stride: int, pad: int = 0, *, ceil: bool = False) -> None:
        """Changes the size only: pooling is no layer, because it has no parameters and its operations do not count."""
        extra = stride - 1 if ceil else 0
        self.height = (self.height + 2 * pad - kernel + extra) // stride + 1
        self.width = (self.width + 2 * pad - kernel + extra) // stride + 1

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        self.add(name, inputs * outputs + outputs, 2 * inputs * outputs)

    def place(self) -> Place:
        return self.channels, self.height, self.width

    def back_to(self, place: Place) -> None:
        """Starts a branch at the input of another one."""
        self.channels, self.height, self.width = place


def pair(value: Size) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def alexnet() -> Layers:
    net = Net()
    net.conv("features.0", 64, 11, stride=4, pad=2, bias=True, norm=False)
    net.pool(3, 2)
    net.conv("features.3", 192, 5, pad=2, bias=True, norm=False)
    net.pool(3, 2)
    for index, out in ((6, 384), (8, 256), (10, 256)):
        net.conv(f"features.{index}", out, 3, pad=1, bias=True, norm=False)
    net.linear("classifier.1", 256 * 36, 4096)
    net.linear("classifier.4", 4096, 4096)
    net.linear("classifier.6", 4096, 1000)
    return net.layers


def vgg(*convolutions: int) -> Layers:
    """Five blocks, each with this number of convolutions."""
    net, index = Net(), 0
    for count, out in zip(convolutions, (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            net.conv(f"features.{index}", out, 3, pad=1, bias=True, norm=False)
            index += 2
        net.pool(2, 2)
        index += 1
    net.linear("classifier.0", 512 * 49, 4096)
    net.linear("classifier.3", 4096, 4096)
    net.linear("classifier.6", 4096, 1000)
    return net.layers


def squeezenet() -> Layers:
    net = Net()
    net.conv("features.0", 64, 3, stride=2, bias=True, norm=False)
    net.pool(3, 2, ceil=True)
    fires = ((3, 16, 64), (4, 16, 64), None, (6, 32, 128), (7, 32, 128), None)
    for fire in (*fires, (9, 48, 192), (10, 48, 192), (11, 64, 256), (12, 64, 256)):
        if fire is None:
            net.pool(3, 2, ceil=True)
            continue
        index, squeeze, expand = fire
        net.conv(f"features.{index}.squeeze", squeeze, 1, bias=True, norm=False)
        place = net.place()
        net.conv(f"features.{index}.expand1x1", expand, 1, bias=True, norm=False)
        net.back_to(place)
        net.conv(f"features.{index}.expand3x3", expand, 3, pad=1, bias=True, norm=False)
        net.channels = 2 * expand
    net.conv("classifier.1", 1000, 1, bias=True, norm=False)
    return net.layers


def shufflenet() -> Layers:
    net = Net()
    net.conv("conv1", 24, 3, stride=2, pad=1)
    net.pool(3, 2, 1)
    for stage, (out, blocks) in enumerate(((244, 4), (488, 8), (976, 4)), 2):
        half = out // 2
        for block in range(blocks):
            name, place = f"stage{stage}.{block}", net.place()
            if block == 0:
                net.conv(f"{name}.branch1.0", net.channels, 3, stride=2, pad=1, groups=net.channels)
                net.conv(f"{name}.branch1.2", half, 1)
                net.back_to(place)
            else:
                net.channels = half
            net.conv(f"{name}.branch2.0", half, 1)
            net.conv(f"{name}.branch2.3", half, 3, stride=2 if block == 0 else 1, pad=1, groups=half)
            net.conv(f"{name}.branch2.5", half, 1)
            net.channels = out
    net.conv("conv5", 2048, 1)
    net.linear("fc", 2048, 1000)
    return net.layers


def resnet(blocks: Sequence[int], *, bottleneck: bool = True, groups: int = 1, width: int = 64) -> Layers:
    net = Net()
    net.conv("conv1", 64, 7, stride=2, pad=3)
    net.pool(3, 2, 1)
    for stage, count in enumerate(blocks):
        planes, wide = 64 << stage, (width * groups) << stage
        out = planes * 4 if bottleneck else planes
        for block in range(count):
            name, place = f"layer{stage + 1}.{block}", net.place()
            stride = 2 if stage and not block else 1
            if bottleneck:
                net.conv(f"{name}.conv1", wide, 1)
                net.conv(f"{name}.conv2", wide, 3, stride=stride, pad=1, groups=groups)
                net.conv(f"{name}.conv3", out, 1)
            else:
                net.conv(f"{name}.conv1", planes, 3, stride=stride, pad=1)
                net.conv(f"{name}.conv2", planes, 3, pad=1)
            if place[0] != out:
                net.back_to(place)
                net.conv(f"{name}.downsample", out, 1, stride=stride)
    net.linear("fc", net.channels, 1000)
    return net.layers


def inception() -> Layers:
    net = Net(pixels=299)
    net.conv("Conv2d_1a", 32, 3, stride=2)
    net.conv("Conv2d_2a", 32, 3)
    net.conv("Conv2d_2b", 64, 3, pad=1)
    net.pool(3, 2)
    net.conv("Conv2d_3b", 80, 1)
    net.conv("Conv2d_4a", 192, 3)
    net.pool(3, 2)
    for block, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        mixed(net, block, [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)], [(pooled, 1)]])
    mixed(net, "6a", [[(384, 3, 2)], [(64, 1), (96, 3), (96, 3, 2)]], kept=288)
    row, column = (1, 7), (7, 1)
    for block, c in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        two, three = [(c, 1), (c, row), (192, column)], [(c, 1), (c, column), (c, row), (c, column), (192, row)]
        mixed(net, block, [[(192, 1)], two, three, [(192, 1)]])
    place = net.place()
    net.pool(5, 3)
    net.conv("AuxLogits.conv0", 128, 1)
    net.conv("AuxLogits.conv1", 768, 5)
    net.linear("AuxLogits.fc", 768, 1000)
    net.back_to(place)
    seven = [(192, 1), (192, row), (192, column), (192, 3, 2)]
    mixed(net, "7a", [[(192, 1), (320, 3, 2)], seven], kept=768)
    split = [(384, (1, 3)), (384, (3, 1))]
    for block in ("7b", "7c"):
        mixed(net, block, [[(320, 1)], [(384, 1), split], [(448, 1), (384, 3), split], [(192, 1)]])
    net.linear("fc", 2048, 1000)
    return net.layers


def mixed(net: Net, block: str, branches: Sequence[Sequence[Any]], kept: int = 0) -> None:
    """An Inception block: branches of (channels, kernel, stride) whose results are concatenated, with `kept` channels
    that are only pooled. A list in a branch is several convolutions of the same input, also concatenated."""
    start, total = net.place(), kept
    for number, branch in enumerate(branches):
        net.back_to(start)
        for index, step in enumerate(branch):
            name, place = f"Mixed_{block}.{number}.{index}", net.place()
            for part, one in enumerate(step if isinstance(step, list) else [step]):
                out, kernel, stride = (*one, 1)[:3]
                net.back_to(place)
                (kh, kw) = pair(kernel)
                pad = (0, 0) if stride > 1 else (kh // 2, kw // 2)
                net.conv(f"{name}.{part}" if isinstance(step, list) else name, out, kernel, stride=stride, pad=pad)
        total += sum(one[0] for one in branch[-1]) if isinstance(branch[-1], list) else branch[-1][0]
    net.channels = total


def transformer(tokens: int, width: int, fused: bool) -> Layers:
    """A transformer block: attention over `tokens` tokens, and a perceptron of four times the width."""
    matrix = width * width
    scores = 4 * tokens * tokens * width  # queries by keys, and their weights by values
    names = ["attention.qkv"] if fused else ["attention.query", "attention.key", "attention.value"]
    size = 3 // len(names)
    layers = [(name, size * (matrix + width), size * 2 * tokens * matrix) for name in names]
    layers += [
        ("attention.output", matrix + width, 2 * tokens * matrix + scores),
        ("mlp.up", 4 * matrix + 4 * width, 8 * tokens * matrix),
        ("mlp.down", 4 * matrix + width, 8 * tokens * matrix),
        ("norms", 4 * width, 0),
    ]
    return [{"name": name, "parameters": size, "flops": flops} for name, size, flops in layers]


def bert(tokens: int = 128, width: int = 768) -> Layers:
    net = Net()
    net.add("embeddings", (30522 + 512 + 2 + 2) * width, 0)
    net.layers.append({"name": "encoder", "repeat": 12, "layers": transformer(tokens, width, fused=False)})
    net.linear("pooler", width, width)
    return net.layers


def gpt2(tokens: int = 128, width: int = 768, vocabulary: int = 50257) -> Layers:
    net = Net()
    net.add("embeddings", (vocabulary + 1024) * width, 0)
    net.layers.append({"name": "h", "repeat": 12, "layers": transformer(tokens, width, fused=True)})
    net.add("ln_f", 2 * width, 0)
    net.add("lm_head", 0, 2 * tokens * width * vocabulary)
    return net.layers


_IMAGES = "images of 224x224"
_WORDS = "sequences of 128 tokens"
ARCHITECTURES: dict[str, tuple[Callable[[], Layers], str]] = {
    "alexnet": (alexnet, f"Krizhevsky, One weird trick, arXiv 1404.5997; {_IMAGES}"),
    "bert": (bert, f"Devlin et al., arXiv 1810.04805, base, without a task's head; {_WORDS}"),
    "gpt2": (gpt2, f"Radford et al., 2019, small; the head's weights are the embeddings'; {_WORDS}"),
    "inception_v3": (
        inception,
        "Szegedy et al., arXiv 1512.00567, with the auxiliary classifier; images of 299x299",
    ),
    "resnet18": (lambda: resnet((2, 2, 2, 2), bottleneck=False), f"He et al., arXiv 1512.03385; {_IMAGES}"),
    "resnet50": (lambda: resnet((3, 4, 6, 3)), f"He et al., arXiv 1512.03385; {_IMAGES}"),
    "resnext50_32x4d": (
        lambda: resnet((3, 4, 6, 3), groups=32, width=4),
        f"Xie et al., arXiv 1611.05431; {_IMAGES}",
    ),
    "shufflenet_v2_x2_0": (shufflenet, f"Ma et al., arXiv 1807.11164, 2x; {_IMAGES}"),
    "squeezenet1_1": (squeezenet, f"Iandola et al., arXiv 1602.07360, version 1.1; {_IMAGES}"),
    "vgg16": (lambda: vgg(2, 2, 3, 3, 3), f"Simonyan, Zisserman, arXiv 1409.1556; {_IMAGES}"),
    "vgg19": (lambda: vgg(2, 2, 4, 4, 4), f"Simonyan, Zisserman, arXiv 1409.1556; {_IMAGES}"),
}


def table(name: str) -> dict[str, Any]:
    """What the TOML file of a model would say."""
    layers, source = ARCHITECTURES[name]
    about = {"name": name, "source": f"{source}. {_ASSUMED}"}
    return about | {"batch": 64, "throughput": _THROUGHPUT, "layers": layers()}

"""The models that are measured: small plain modules, with layers that every engine may be expected to know.

No batch norm (no private engine can take it), no dropout, no in-place activations (Opacus' ghost
clipping refuses them).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fl_dp.form import Form
from fl_dp.models.architectures.tanh_cnn import tanh_cnn
from fl_dp.models.lora import with_lora
from fl_dp.models.patterns import choose_trainable, is_adapter

NUM_CLASSES = 10
VOCABULARY = 1024
VGG_11 = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
VGG_19 = (64, 64, "pool", 128, 128, "pool", *(256,) * 4, "pool", *(512,) * 4, "pool", *(512,) * 4, "pool")


@dataclass(frozen=True, slots=True)
class Spec:
    """How to build a model, and its input: images (channels, side, side), or tokens (length,)."""

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    batch: int = 64

    @property
    def takes_tokens(self) -> bool:
        return len(self.input_shape) == 1

    def batch_of(self, size: int, device: str) -> tuple[Tensor, Tensor]:
        """Random inputs (size, *input_shape) and their targets: a class, or the next token at each place."""
        if self.takes_tokens:
            tokens = torch.randint(VOCABULARY, (size, self.input_shape[0] + 1), device=device)
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        inputs = torch.randn(size, *self.input_shape, device=device)
        return inputs, torch.randint(NUM_CLASSES, (size,), device=device)


def per_example_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """(N,) cross entropies of outputs (N, classes), or the mean over places of (N, T, classes)."""
    losses = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    return losses.view(len(outputs), -1).mean(1)


def group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(min(32, channels // 4), channels)


def vgg(layers: tuple[int | str, ...]) -> nn.Module:
    """VGG (Simonyan and Zisserman 2015) for 32x32 images, one linear layer at its end."""
    modules: list[nn.Module] = []
    channels = 3
    for layer in layers:
        if isinstance(layer, str):
            modules.append(nn.MaxPool2d(2))
            continue
        modules += [nn.Conv2d(channels, layer, 3, padding=1), group_norm(layer), nn.ReLU()]
        channels = layer
    return nn.Sequential(*modules, nn.Flatten(), nn.Linear(channels, NUM_CLASSES))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a short cut (He et al. 2016)."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
            group_norm(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            group_norm(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), group_norm(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def resnet18(width: int) -> nn.Module:
    """ResNet-18 for 32x32 images: a 3x3 stem, no pooling after it; `width` channels in the first stage."""
    blocks: list[nn.Module] = []
    channels = width
    for stage in range(4):
        for stride in (1 if stage == 0 else 2, 1):
            blocks.append(BasicBlock(channels, width * 2**stage, stride))
            channels = width * 2**stage
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        group_norm(width),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, NUM_CLASSES),
    )


class PositionEmbedding(nn.Module):
    """A module of its own: Opacus gives a module that holds a bare parameter, with all that is below
    it, to its slow path, which would be the whole model."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.position = nn.Parameter(0.02 * torch.randn(1, length, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.position


class TransformerBlock(nn.Module):
    """Pre-norm attention and a two-layer perceptron four times as wide, on (N, T, width)."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    def _attention(self, x: Tensor) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(2, 0).transpose(2, 3)
        q, k, v = heads  # (N, heads, T, width / heads) each
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.projection(mixed.transpose(1, 2).flatten(2))


class ViT(nn.Module):
    """Vision transformer on 32x32 images: 64 patches of 4x4, no class token, mean over the places."""

    def __init__(self, width: int = 192, depth: int = 6, heads: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.position = PositionEmbedding(64, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, causal=False) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, NUM_CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.position(self.patches(images).flatten(2).transpose(1, 2))
        return self.head(self.norm(self.blocks(x)).mean(1))


class Decoder(nn.Module):
    """GPT-like decoder on tokens (N, T); the output layer is not tied to the embedding."""

    def __init__(self, length: int = 128, width: int = 256, depth: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.position = PositionEmbedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, causal=True) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.position(self.tokens(tokens)))))


def convnext_tiny() -> nn.Module:
    from torchvision.models import convnext_tiny  # the only model that needs torchvision

    return convnext_tiny(num_classes=NUM_CLASSES, stochastic_depth_prob=0.0)


def vit_tiny_lora() -> nn.Module:
    """ViT-tiny of timm on patches of 4x4: frozen but for adapters of rank 8 on attention's qkv, and the head.

    B is random, not zero as where LoRA starts: else some gradients would be zero.
    """
    import timm  # with peft, what only this model needs

    model: nn.Module = timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, num_classes=NUM_CLASSES, img_size=32, patch_size=4
    )
    model = with_lora(model, 8, "*.attn.qkv")
    choose_trainable(model, "head.*", adapters=True)
    for name, parameter in model.named_parameters():
        if is_adapter(name) and "lora_B" in name:
            nn.init.normal_(parameter, std=0.02)
    return model.train()


MODELS = {
    "tanh-cnn": Spec(lambda: tanh_cnn(Form((1, 28, 28), NUM_CLASSES)), (1, 28, 28), batch=256),
    "resnet18-w16": Spec(lambda: resnet18(16), (3, 32, 32)),
    "resnet18-w64": Spec(lambda: resnet18(64), (3, 32, 32)),
    "vgg11": Spec(lambda: vgg(VGG_11), (3, 32, 32)),
    "vgg19": Spec(lambda: vgg(VGG_19), (3, 32, 32)),
    "vit": Spec(ViT, (3, 32, 32)),
    "convnext-tiny": Spec(convnext_tiny, (3, 64, 64)),
    "decoder": Spec(Decoder, (128,)),
    "vit-tiny-lora": Spec(vit_tiny_lora, (3, 32, 32), batch=32),
}
# Those of which all weights are trained: the targets of a step are of these.
WHOLE = tuple(name for name in MODELS if not name.endswith("-lora"))

"""Small models that use parameters in every way that a rule, or none, is there for; and their inputs."""

import torch
from torch import Tensor, nn


class Twice(nn.Module):
    """One layer called twice: the cross terms of its two uses count."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(x)))


class BatchSecond(nn.Module):
    """Works on (T, N, d), as nn.MultiheadAttention does by default."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(6), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(x.transpose(0, 1))).transpose(0, 1)


class Attention(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.attention = nn.MultiheadAttention(6, 2, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        if not self.batch_first:
            x = x.transpose(0, 1)
        y = self.attention(x, x, x, need_weights=False)[0]
        return y if self.batch_first else y.transpose(0, 1)


class Tied(nn.Module):
    """An embedding whose table is the output layer as well."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(torch.tanh(self.table(x)), self.table.weight)


class PositionEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 4, 6))
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.tanh(x + self.position))


class LowRank(nn.Module):
    """A frozen-size weight with a low-rank correction, as LoRA merges it."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(width, 6)), nn.Parameter(torch.randn(width))
        self.a, self.b = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.randn(width, 2))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight + 0.5 * self.b @ self.a, self.bias)


class ClassToken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.linear = nn.Parameter(torch.randn(1, 1, 6)), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.cat([self.token.expand(len(x), -1, -1), x], 1).tanh())


class RepeatedToken(nn.Module):
    """A token in front of every example's rows, spelt `repeat`."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.linear = nn.Parameter(torch.randn(1, 1, 6)), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.cat([self.token.repeat(len(x), 2, 1), x], 1).tanh())


class Called(nn.Module):
    """A parameter and what is done with it."""

    def __init__(self, shape: tuple[int, ...], function) -> None:
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.randn(shape)), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


class Bags(nn.Module):
    """Bags of rows of a table, taken in a way that has no rule."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.table = way, nn.Parameter(torch.randn(11, 4))
        self.weights = nn.Parameter(torch.ones(3, 6))
        self.table.requires_grad_(way == "max")
        self.weights.requires_grad_(way == "weights")

    def forward(self, x: Tensor) -> Tensor:
        rows = x.abs().long()
        if self.way == "max":
            return nn.functional.embedding_bag(rows, self.table, mode="max")
        return nn.functional.embedding_bag(rows, self.table, mode="sum", per_sample_weights=self.weights)


class LayerScale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(6, 6), nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.linear(x)


class RelativeBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(5, 2))
        self.register_buffer("index", torch.tensor([[0, 1, 2], [2, 3, 4], [4, 0, 1]]))

    def forward(self, x: Tensor) -> Tensor:  # (N, 2, 3, 3)
        return (x + self.table[self.index].permute(2, 0, 1)).softmax(-1)


class LookUp(nn.Module):
    """An embedding spelt as indexing."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Parameter(torch.randn(11, 4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.table[x])


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class Temperature(nn.Module):
    """A parameter without dimensions, as CLIP has one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.temperature = nn.Linear(6, 3), nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.temperature.exp()


class FirstOutput(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def tokens(n: int) -> Tensor:
    return torch.randint(0, 11, (n, 5))


def normal(*shape: int):
    return lambda n: torch.randn(n, *shape)

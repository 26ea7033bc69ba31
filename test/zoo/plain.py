"""Models in plain PyTorch, written as people write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from entry import Entry, noise, padding, tokens
from torch import Tensor, nn


class Tabular(nn.Module):
    """Embeddings and numbers, as for click-through rates."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 4) for _ in range(3))
        self.wide = nn.Linear(5, 1)
        self.deep = nn.Sequential(nn.Linear(17, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 1))

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        rows = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return torch.sigmoid(self.wide(numbers) + self.deep(torch.cat([numbers, *rows], 1)))


class Dlrm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
        self.tables = nn.ModuleList(nn.Embedding(30, 8) for _ in range(4))
        self.top = nn.Sequential(nn.Linear(18, 16), nn.ReLU(), nn.Linear(16, 2))
        pairs = torch.tril_indices(5, 5, -1)
        self.register_buffer("rows", pairs[0])
        self.register_buffer("columns", pairs[1])

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        low = self.bottom(dense)
        stack = torch.stack([low, *(t(sparse[:, i]) for i, t in enumerate(self.tables))], 1)
        products = (stack @ stack.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([low, products], 1))


class Bounded(nn.Module):
    """Bounds that a layer which starts at zero lies on: a hard-tanh has no gradient there, a clamp has one."""

    def __init__(self) -> None:
        super().__init__()
        self.hard, self.soft = nn.Linear(6, 8), nn.Linear(6, 8)
        self.out = nn.Linear(16, 3)
        for each in (self.hard, self.soft):
            nn.init.zeros_(each.weight)
            nn.init.zeros_(each.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([F.hardtanh(self.hard(x), 0.0, 2.0), self.soft(x).clamp(0.0, 2.0)], 1))


class Bags(nn.Module):
    """EmbeddingBag over a matrix: a bag a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(40, 8, mode="sum")
        self.out = nn.Linear(8, 3)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.bag(words))


class Standardized(nn.Module):
    """A convolution whose weights are standardised by batch normalisation (NF-Nets)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))
        self.gain = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, image: Tensor) -> Tensor:
        rows = self.weight.reshape(1, 4, -1)
        weight = F.batch_norm(rows, None, None, weight=self.gain, training=True)
        return F.conv2d(image, weight.reshape_as(self.weight)).mean((2, 3))


class TokenTypes(nn.Module):
    """Types of tokens are a row of a buffer, widened to the batch and gathered by position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kinds", torch.arange(16)[None] % 3)
        self.words, self.types = nn.Embedding(30, 8), nn.Embedding(3, 8)

    def forward(self, words: Tensor) -> Tensor:
        places = (words != 29).long().cumsum(1)
        kinds = self.kinds.expand(words.shape[0], -1).gather(1, places)
        return (self.words(words) + self.types(kinds)).mean(1)


class Factorization(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(50, 8), nn.Embedding(60, 8)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        return (self.users(user) * self.items(item)).sum(1) + self.bias


class CrossNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(10, 10) for _ in range(3))
        self.out = nn.Linear(10, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = x
        for layer in self.layers:
            x = first * layer(x) + x
        return self.out(x)


class Tagger(nn.Module):
    """Recurrent, with initial states that PyTorch makes: zeros for the batch of the export."""

    def __init__(self, kind: type[nn.Module], batch_first: bool, both: bool) -> None:
        super().__init__()
        self.rnn = kind(6, 8, num_layers=2, batch_first=batch_first, bidirectional=both)
        self.out = nn.Linear(16 if both else 8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0])


class Classifier(nn.Module):
    """The last state of an LSTM over words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.rnn = nn.LSTM(8, 12, batch_first=True)
        self.out = nn.Linear(12, 3)

    def forward(self, words: Tensor) -> Tensor:
        _, (hidden, _) = self.rnn(self.words(words))
        return self.out(hidden[-1])


class OwnStates(nn.Module):
    """Initial states by hand, as tutorials have them."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 8, num_layers=2, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        start = torch.zeros(2, x.size(0), 8, device=x.device)
        return self.out(self.rnn(x, start)[0][:, -1])


class Encoder(nn.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.encoder(x))


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 16)
        self.positions = nn.Parameter(torch.randn(1, 9, 16))
        self.body = nn.Transformer(16, 4, 2, 2, 32, 0.0, batch_first=True)
        self.out = nn.Linear(16, 30)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        source = self.words(source) + self.positions[:, : source.size(1)]
        target = self.words(target) + self.positions[:, : target.size(1)]
        return self.out(self.body(source, target, tgt_mask=mask))


class RotaryAttention(nn.Module):
    """Tables of sines and cosines, a causal mask: buffers, not parameters."""

    def __init__(self, length: int = 10, heads: int = 2, size: int = 8) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.project = nn.Linear(heads * size, 3 * heads * size)
        self.out = nn.Linear(heads * size, heads * size)
        angles = torch.outer(torch.arange(length), 10_000.0 ** -(torch.arange(0, size, 2) / size))
        self.register_buffer("cos", torch.cat([angles, angles], 1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], 1).sin())
        self.register_buffer("mask", torch.full((length, length), -1e9).triu(1))

    def turn(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        q, k, v = self.project(x).view(n, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        scores = self.turn(q) @ self.turn(k).transpose(-1, -2) / self.size**0.5 + self.mask
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, -1))


class LastToken(nn.Module):
    """The state at the end of each sequence: rows of a matrix of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.mix = nn.Linear(8, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        x = torch.tanh(self.mix(self.words(words)))
        n, length, size = x.shape
        rows = torch.arange(n) * length + mask.sum(1) - 1
        return self.out(x.reshape(-1, size)[rows])


class LastTokenByIndex(LastToken):
    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        x = torch.tanh(self.mix(self.words(words)))
        return self.out(x[torch.arange(x.size(0)), mask.sum(1) - 1])


class FirstRow(nn.Module):
    """The first row of all tokens together: of the first sample alone."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.mix(x.reshape(-1, 8))
        return x + rows[0]


class Unet(nn.Module):
    """Sizes of the skip that is met: constants in the file."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.up = nn.ModuleList([nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(8, 2, 1)])

    def forward(self, x: Tensor) -> Tensor:
        first = F.relu(self.down[0](x))
        low = F.relu(self.down[1](F.max_pool2d(first, 2)))
        high = F.interpolate(low, size=first.shape[-2:], mode="bilinear", align_corners=False)
        return self.up[1](F.relu(self.up[0](torch.cat([first, high], 1))))


class Autoencoder(nn.Module):
    """Tied: the decoder has the transposed weight of the encoder, and scalars of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(12, 5)
        self.bias = nn.Parameter(torch.zeros(12))
        self.scale, self.shift = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        low = torch.tanh(self.encode(x)) * self.scale + self.shift
        return F.linear(low, self.encode.weight.t(), self.bias)


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(16, 4), nn.Linear(16, 4)
        self.decode = nn.Sequential(nn.Linear(4, 64), nn.Sigmoid(), nn.Unflatten(1, (1, 8, 8)))

    def forward(self, image: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.encode(image)
        mean, log_variance = self.mean(x), self.log_variance(x)
        return self.decode(mean + noise * (log_variance / 2).exp()), mean, log_variance


class Experts(nn.Module):
    """Softly gated, each expert on each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.first = nn.Parameter(torch.randn(3, 6, 8))
        self.second = nn.Parameter(torch.randn(3, 8, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("neh,eho->neo", torch.einsum("ni,eih->neh", x, self.first), self.second)
        return (y * self.gate(x).softmax(-1)[..., None]).sum(1)


class Siamese(nn.Module):
    """Both images as one batch, as RAFT and many others do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        a, b = torch.chunk(self.body(torch.cat([first, second], 0)), 2, 0)
        return (a * b).mean((2, 3))


class ClassToken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 17, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(16, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1) + self.positions
        return self.out(self.layer(x)[:, 0])


class Causal(nn.Module):
    """Dilated convolutions over time, with gates."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**i) for i in range(3))
        self.out = nn.Conv1d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = x + F.glu(layer(F.pad(x, (2**i, 0))), 1)
        return self.out(x)


class Graph(nn.Module):
    """Messages along the edges of one graph, whose nodes each sample has values of."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.out = nn.Linear(4, 8), nn.Linear(8, 2)
        self.register_buffer("sources", torch.tensor([0, 1, 2, 3, 4, 0]))
        self.register_buffer("targets", torch.tensor([1, 2, 3, 4, 0, 2]))

    def forward(self, x: Tensor) -> Tensor:
        messages = self.message(x)[:, self.sources]
        total = torch.zeros(x.size(0), x.size(1), 8).index_add(1, self.targets, messages)
        return self.out(torch.relu(total))


class Assigned(nn.Module):
    """Assignment to a part of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x).clone()
        y[:, 2:4] = 2 * x[:, :2]
        return torch.tanh(y)


class Buffers(nn.Module):
    """Means and deviations by which samples are scaled, and frozen features."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(6))
        self.register_buffer("deviation", torch.rand(6) + 0.5)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.out = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.frozen((x - self.mean) / self.deviation)))


class Padded(nn.Module):
    """An embedding that does not train its padding row, though the head that it is tied to does."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.words, self.mix = nn.Embedding(30, 8, padding_idx=0), nn.Linear(8, 8)
        self.head = nn.Linear(8, 30, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, words: Tensor) -> Tensor:
        return self.head(torch.tanh(self.mix(self.words(words))))


class Adapted(nn.Module):
    """Low-rank adapters beside frozen layers."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.ModuleList(nn.Linear(8, 8) for _ in range(2)).requires_grad_(False)
        self.down = nn.ParameterList(torch.randn(2, 8) * 0.1 for _ in range(2))
        self.up = nn.ParameterList(torch.zeros(8, 2) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for base, down, up in zip(self.base, self.down, self.up):
            x = torch.tanh(base(x) + F.linear(F.linear(x, down), up))
        return x


class Features(nn.Module):
    """Features that are computed without gradients."""

    def __init__(self, detached: bool = False) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.detached = detached

    def forward(self, x: Tensor) -> Tensor:
        if self.detached:  # of which one half is trained
            features = self.body(x)
            return self.head(features + features.tanh().detach())
        with torch.no_grad():
            features = torch.tanh(self.body(x))
        return self.head(features)


class Gated(nn.Module):
    """Residual branches with scalar gates that start at zero (ReZero)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.gates = nn.ParameterList(torch.zeros(1) for _ in range(3))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        for layer, gate in zip(self.layers, self.gates):
            x = x + gate * torch.relu(layer(x))
        return x * self.scale


def images(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


PLAIN: dict[str, Entry] = {
    "mlp": Entry(
        lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), {"x": noise(6)}
    ),
    "padding-row": Entry(Padded, {"words": tokens(30, 5, least=0)}, is_partly_frozen=True),
    "padding-row-tied": Entry(lambda: Padded(tied=True), {"words": tokens(30, 5, least=0)}, is_partly_frozen=True),
    "adapters": Entry(Adapted, {"x": noise(8)}),
    "features-without-gradient": Entry(Features, {"x": noise(6)}),
    "features-detached": Entry(lambda: Features(detached=True), {"x": noise(6)}, is_partly_frozen=True),
    "scalar-gates": Entry(Gated, {"x": noise(8)}),
    "cnn-batchnorm": Entry(
        lambda: images(
            nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(8, 10),
        ),
        {"image": noise(3, 16, 16)},
    ),
    "cnn-groupnorm": Entry(
        lambda: images(
            nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, groups=4),
            nn.InstanceNorm2d(8, affine=True), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(288, 4),
        ),
        {"image": noise(3, 16, 16)},
    ),
    "cnn-3d": Entry(
        lambda: images(
            nn.Conv3d(1, 4, 3), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(108, 2)
        ),
        {"volume": noise(1, 8, 8, 8)},
    ),
    "super-resolution": Entry(
        lambda: images(
            nn.Conv2d(1, 8, 5, padding=2), nn.Tanh(), nn.Conv2d(8, 9, 3, padding=1),
            nn.PixelShuffle(3),
        ),
        {"image": noise(1, 8, 8)},
    ),
    "generator": Entry(
        lambda: images(
            nn.Unflatten(1, (8, 1, 1)), nn.ConvTranspose2d(8, 8, 4, bias=False),
            nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh(),
        ),
        {"noise": noise(8)},
    ),
    "tabular": Entry(Tabular, {"numbers": noise(5), "categories": tokens(20, 3)}),
    "dlrm": Entry(Dlrm, {"dense": noise(6), "sparse": tokens(30, 4)}),
    "hard-tanh": Entry(Bounded, {"x": noise(6)}),
    "embedding-bag": Entry(Bags, {"words": tokens(40, 7)}),
    "standardized": Entry(Standardized, {"image": noise(3, 8, 8)}),
    "token-types": Entry(TokenTypes, {"words": tokens(30, 7)}),
    "factorization": Entry(Factorization, {"user": tokens(50), "item": tokens(60)}),
    "cross-network": Entry(CrossNetwork, {"x": noise(10)}),
    "lstm": Entry(lambda: Tagger(nn.LSTM, True, False), {"x": noise(7, 6)}),
    "lstm-both-ways": Entry(lambda: Tagger(nn.LSTM, True, True), {"x": noise(7, 6)}),
    "gru": Entry(lambda: Tagger(nn.GRU, True, False), {"x": noise(7, 6)}),
    "rnn": Entry(lambda: Tagger(nn.RNN, True, False), {"x": noise(7, 6)}),
    "lstm-last-state": Entry(Classifier, {"words": tokens(30, 7)}),
    "gru-own-states": Entry(OwnStates, {"x": noise(7, 6)}),
    "transformer-encoder": Entry(Encoder, {"x": noise(9, 16)}),
    "transformer": Entry(Translator, {"source": tokens(30, 9), "target": tokens(30, 6)}),
    "rotary-attention": Entry(RotaryAttention, {"x": noise(10, 16)}),
    "last-token": Entry(LastToken, {"words": tokens(30, 7), "mask": padding(7)}),
    "last-token-by-index": Entry(LastTokenByIndex, {"words": tokens(30, 7), "mask": padding(7)}),
    "first-row": Entry(FirstRow, {"x": noise(5, 8)}),
    "unet": Entry(Unet, {"image": noise(3, 17, 17)}),
    "autoencoder-tied": Entry(Autoencoder, {"x": noise(12)}),
    "variational": Entry(Variational, {"image": noise(1, 8, 8), "noise": noise(4)}),
    "experts": Entry(Experts, {"x": noise(6)}),
    "siamese": Entry(Siamese, {"first": noise(3, 12, 12), "second": noise(3, 12, 12)}),
    "class-token": Entry(ClassToken, {"image": noise(3, 16, 16)}),
    "causal-convolutions": Entry(Causal, {"x": noise(4, 12)}),
    "graph": Entry(Graph, {"x": noise(5, 4)}),
    "assigned": Entry(Assigned, {"x": noise(6)}),
    "buffers": Entry(Buffers, {"x": noise(6)}),
}

"""The source of the models of hand-made plan directories, and what crosses their boundaries."""

from __future__ import annotations

BASE = """
import torch
from torch import nn
from torch.nn import functional as F


class Stage(nn.Module):
    receives = inputs = sends = layers = ()
    parameters_spec = {}
    buffers_spec = {}
    constants_spec = {}

    def __init__(self):
        super().__init__()
        for table, trained in ((self.parameters_spec, True), (self.buffers_spec, False),
                               (self.constants_spec, False)):
            for name, spec in table.items():
                home = self
                *path, leaf = name.split(".")
                for part in path:
                    if not hasattr(home, part):
                        home.add_module(part, nn.Module())
                    home = getattr(home, part)
                tensor = torch.empty(spec[0], dtype=getattr(torch, spec[1]))
                if trained:
                    home.register_parameter(leaf, nn.Parameter(tensor))
                else:
                    home.register_buffer(leaf, tensor)

    segments = ()

    def checkpoint(self, segment, *arguments):
        return segment(*arguments)

    def dropout(self, name, x, ratio, training, axis, rows):
        return F.dropout(x, ratio, training)

    def batch_norm(self, x, weight, bias, running_mean, running_var, momentum, eps, training):
        return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)

    def norm(self, bn, x):
        return self.batch_norm(x, bn.weight, bn.bias, bn.running_mean, bn.running_var, 0.1, 1e-5,
                               self.training)


def norm_spec(name, channels):
    shape = (channels,)
    return ({name + ".weight": (shape, "float32", "ones"),
             name + ".bias": (shape, "float32", "zeros")},
            {name + ".running_mean": (shape, "float32", "zeros"),
             name + ".running_var": (shape, "float32", "ones")})
"""

AWKWARD = (
    BASE
    + """
MODEL = "awkward"
INPUTS = {"image": ("float32", ((1, 0), (0, 3), (0, 6), (0, 6))), "kind": ("int64", ((1, 0),))}
INPUT_BOUNDS = {"kind": 5}
OUTPUTS = {"logits": ("float32", ((1, 0), (0, 7)))}
BN1, BN2 = norm_spec("bn1", 4), norm_spec("bn2", 4)


class Stage0(Stage):
    inputs = ("image", "kind")
    sends = ("a", "b", "s", "k")
    parameters_spec = {"conv1.weight": ((4, 3, 3, 3), "float32", "kaiming"),
                       "tied.scale": ((4,), "float32", "ones"), **BN1[0]}
    buffers_spec = BN1[1]

    def forward(self, image, kind):
        a = F.conv2d(image, self.conv1.weight, padding=1)
        return a, F.relu(self.norm(self.bn1, a)), self.tied.scale * 2, kind + 1


class Stage1(Stage):
    receives = ("a", "b", "s", "k")
    sends = ("a", "c", "k")
    parameters_spec = {"conv2.weight": ((4, 4, 3, 3), "float32", "kaiming"), **BN2[0]}
    buffers_spec = BN2[1]

    def forward(self, a, b, s, k):
        c = F.conv2d(b, self.conv2.weight, padding=1)
        return a, self.norm(self.bn2, c) * s.view(1, 4, 1, 1), k


class Stage2(Stage):
    receives = ("a", "c", "k")
    sends = ("logits",)
    parameters_spec = {"embedding.weight": ((6, 4), "float32", "normal"),
                       "fc.weight": ((7, 4), "float32", "kaiming"),
                       "fc.bias": ((7,), "float32", "zeros"),
                       "tied.scale": ((4,), "float32", "ones")}

    def forward(self, a, c, k):
        x = (F.relu(a + c).mean((2, 3)) + F.embedding(k, self.embedding.weight)) * self.tied.scale
        return (F.linear(x, self.fc.weight, self.fc.bias),)


STAGES = (Stage0, Stage1, Stage2)
"""
)

# Its parameters are read by name, layer by layer. Both stages use one of them, and Whole uses it twice.
GATHERED = (
    BASE
    + """
MODEL = "gathered"
INPUTS = {"x": ("float32", ((1, 0), (0, 4)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, 5)))}
BN = norm_spec("bn", 6)


class Named(Stage):
    def tensor(self, name):
        *path, leaf = name.split(".")
        return getattr(self.get_submodule(".".join(path)), leaf)

    def begin_layer(self):
        pass

    def first(self, x):
        p = self.tensor
        self.begin_layer()
        x = torch.tanh(F.linear(x, p("a.weight"), p("a.bias")))
        x = self.batch_norm(x, p("bn.weight"), p("bn.bias"), p("bn.running_mean"), p("bn.running_var"), 0.1,
                            1e-5, self.training)
        self.begin_layer()
        return F.linear(x, p("tied.weight")) + p("unread.weight").numel()

    def second(self, x):
        p = self.tensor
        self.begin_layer()
        x = F.linear(x, p("tied.weight").t() * 2).relu() + x.mean(1, True)
        self.begin_layer()
        return F.linear(x, p("b.weight"), p("b.bias"))


FIRST = {"a.weight": ((6, 4), "float32", "kaiming"), "a.bias": ((6,), "float32", "zeros"), **BN[0],
         "tied.weight": ((6, 6), "float32", "kaiming"), "unread.weight": ((3,), "float32", "ones")}
SECOND = {"tied.weight": ((6, 6), "float32", "kaiming"), "b.weight": ((5, 6), "float32", "kaiming"),
          "b.bias": ((5,), "float32", "zeros")}
OF_FIRST = (("a.weight", "a.bias", "bn.weight", "bn.bias"), ("tied.weight", "unread.weight"))


class Stage0(Named):
    inputs = ("x",)
    sends = ("h",)
    parameters_spec, buffers_spec, gathered = FIRST, BN[1], OF_FIRST

    def forward(self, x):
        return (self.first(x),)


class Stage1(Named):
    receives = ("h",)
    sends = ("y",)
    parameters_spec, gathered = SECOND, (("tied.weight",), ("b.weight", "b.bias"))

    def forward(self, h):
        return (self.second(h),)


class Whole(Named):
    inputs = ("x",)
    sends = ("y",)
    parameters_spec, buffers_spec, gathered = FIRST | SECOND, BN[1], (*OF_FIRST, ("b.weight", "b.bias"))

    def forward(self, x):
        return (self.second(self.first(x)),)


STAGES = (Stage0, Stage1)
"""
)

GATHERED_BOUNDARY = [
    {"name": "h", "type": "float32", "shape": [{"perSample": 1}, {"fixed": 6}], "differentiable": True}
]

# Two tables of different widths, one of them read twice, by negative indices too.
TABLES = (
    BASE
    + """
MODEL = "tables"
INPUTS = {"user": ("int64", ((1, 0), (0, 3))), "item": ("int64", ((1, 0),))}
INPUT_BOUNDS = {"user": 13, "item": 7}
OUTPUTS = {"logits": ("float32", ((1, 0), (0, 5)))}


class Stage0(Stage):
    inputs = ("user", "item")
    sends = ("x",)
    parameters_spec = {"mix.weight": ((6, 6), "float32", "kaiming")}
    tables_spec = {"users": ((13, 4), "float32", "normal"),
                   "items": ((7, 6), "float32", "normal")}
    lookups = ("users", "items", "users")

    def __init__(self, tables=True):
        if tables:
            self.parameters_spec = self.parameters_spec | self.tables_spec
        super().__init__()

    def tensor(self, name):
        return getattr(self, name)

    def indices(self, user, item):
        return user, item - 7, 12 - user[:, 0]

    def forward(self, user, item):
        a = self.lookup("users", user).sum(1)
        b = F.linear(self.lookup("items", item - 7), self.mix.weight)
        return (torch.cat([a, b, self.lookup("users", 12 - user[:, 0])], 1) * 20,)


class Stage1(Stage):
    receives = ("x",)
    sends = ("logits",)
    parameters_spec = {"fc.weight": ((5, 14), "float32", "kaiming")}

    def forward(self, x):
        return (F.linear(torch.tanh(x), self.fc.weight),)


STAGES = (Stage0, Stage1)
"""
)
TABLES_BOUNDARY = [
    {
        "name": "x",
        "type": "float32",
        "shape": [{"perSample": 1}, {"fixed": 14}],
        "differentiable": True,
    }
]

# Each stage is one segment that is computed again.
AGAIN = """


def again(stage):
    class Again(stage):
        segments = ("whole",)

        def forward(self, *arguments):
            return self.checkpoint(super().forward, *arguments)

    return Again


STAGES = tuple(again(stage) for stage in STAGES)
"""

MAP = [{"perSample": 1}, {"fixed": 4}, {"fixed": 6}, {"fixed": 6}]
AWKWARD_BOUNDARIES = [
    [
        {"name": "a", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "b", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "s", "type": "float32", "shape": [{"fixed": 4}], "differentiable": True},
        {"name": "k", "type": "int64", "shape": [{"perSample": 1}]},
    ],
    [
        {"name": "a", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "c", "type": "float32", "shape": MAP, "differentiable": True},
        {"name": "k", "type": "int64", "shape": [{"perSample": 1}]},
    ],
]

LINEAR = (
    BASE
    + """
MODEL = "linear"
INPUTS = {"x": ("float32", ((1, 0), (0, 6)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, 3)))}


class Whole(Stage):
    inputs = ("x",)
    sends = ("y",)
    parameters_spec = {"up.weight": ((8, 6), "float32", "kaiming"),
                       "down.weight": ((3, 8), "float32", "kaiming")}

    def forward(self, x):
        return (F.linear(torch.tanh(F.linear(x, self.up.weight)), self.down.weight),)


STAGES = (Whole,)
"""
)


# Samples lie on the second axis, two rows of each, between the stages' dropouts.
DROPOUT = (
    BASE
    + """
MODEL = "dropout"
INPUTS = {"x": ("float32", ((1, 0), (0, 6)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, 5)))}


class Stage0(Stage):
    inputs = ("x",)
    sends = ("h",)
    parameters_spec = {"up.weight": ((16, 6), "float32", "kaiming")}

    def forward(self, x):
        x = torch.tanh(F.linear(self.dropout("in", x, 0.2, self.training, 0, 1), self.up.weight))
        return (x.view(-1, 8).T,)


class Stage1(Stage):
    receives = ("h",)
    sends = ("y",)
    parameters_spec = {"down.weight": ((5, 16), "float32", "kaiming")}

    def forward(self, h):
        h = self.dropout("between", h, 0.5, self.training, 1, 2).T.reshape(-1, 16)
        weight = self.dropout("weight", self.down.weight, 0.1, self.training, None, 1)
        return (F.linear(h, weight),)


STAGES = (Stage0, Stage1)
"""
)
DROPOUT_BOUNDARY = [
    {
        "name": "h",
        "type": "float32",
        "shape": [{"fixed": 8}, {"perSample": 2}],
        "differentiable": True,
    }
]


# Layers of 2 MB of parameters that keep 4 MB a sample, with next to nothing to compute; as segments of two.
LARGE = (
    BASE
    + """
LAYERS, WIDTH = 24, 1 << 18
MODEL = "large"
INPUTS = {"x": ("float32", ((1, 0), (0, WIDTH)))}
OUTPUTS = {"y": ("float32", ((1, 0), (0, WIDTH)))}


class Whole(Stage):
    inputs = ("x",)
    sends = ("y",)
    parameters_spec = {
        f"{name}{i}": ((WIDTH,), "float32", "normal") for i in range(LAYERS) for name in ("w", "b")
    }

    def segment(self, x, first):
        for i in (first, first + 1):
            y = torch.sin(x * getattr(self, f"w{i}")) + getattr(self, f"b{i}")
            x = x + torch.tanh(y)
        return (x,)

    def forward(self, x):
        for first in range(0, LAYERS, 2):
            (x,) = self.checkpoint(self.segment, x, first)
        return (x,)


STAGES = (Whole,)
"""
)

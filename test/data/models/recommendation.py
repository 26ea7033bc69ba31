"""Writes the recommendation models of this folder: python recommendation.py [-o DIR] [MODEL ...]

ctrdnn, matchnet, 2emb and nce are like the four models that HeterPS (Liu et al., arXiv 2111.10635,
section 6) plans: a huge sparse embedding, then dense layers. The publication gives their names and
numbers of layers (16, 16, 10 and 5) and not their sizes; the sizes here are ours:

  ctrdnn    one table of 16 M rows of 64 for 26 slots of up to 4 ids each (summed), as in PaddleRec's
            CTR-DNN, which hashes all slots of Criteo into one table; 15 dense layers
  matchnet  two towers (user, item), each a table and 6 dense layers, whose outputs and their
            product pass 2 more: 2 * 7 + 2 = 16; after DSSM (Huang et al., CIKM 2013)
  2emb      two tables (user, item) of different widths, then 8 dense layers
  nce       noise-contrastive estimation (Gutmann and Hyvarinen, AISTATS 2010) as word2vec uses it: a
            table for the context, 2 dense layers, a table for the target and 20 noise words, and
            their product: 5 layers
  dlrm-terabyte  DLRM (Naumov et al., arXiv 1906.00091) on Criteo Terabyte as MLPerf Training 3.0
            sets it: 26 tables of 128 columns, rows hashed to at most 40 M; 104 GB of tables

`--rows-scale F` multiplies the rows of all tables, for experiments and for tests that train.
The batch is symbolic ("N"). Weights are left out: initializers are external data whose file is
absent, since a planner needs their shapes.
"""
from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper


class Builder:
    """A graph under construction; every method returns the name of the tensor it makes."""

    def __init__(self, name: str, rows_scale: float) -> None:
        self.name, self.rows_scale = name, rows_scale
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []

    def input(self, name: str, *dims: int, integer: bool = False) -> str:
        kind = TensorProto.INT64 if integer else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["N", *dims]))
        return name

    def node(self, op: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name + ":0"], name=name, **attributes))
        return name + ":0"

    def weight(self, name: str, *dims: int) -> str:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
        self.weights.append(tensor)
        return name

    def constant(self, name: str, *values: int) -> str:
        self.weights.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def embedding(self, name: str, ids: str, rows: int, columns: int) -> str:
        rows = max(8, math.ceil(rows * self.rows_scale))
        return self.node("Gather", name, self.weight(f"{name}.table", rows, columns), ids, axis=0)

    def bag(self, name: str, ids: str, rows: int, columns: int, slots: int) -> str:
        """Ids of shape [N, slots, hot]: the rows of a slot are summed; returns [N, slots*columns]."""
        looked_up = self.embedding(name, ids, rows, columns)
        axis = self.constant(f"{name}.axis", 2)
        summed = self.node("ReduceSum", f"{name}.sum", looked_up, axis, keepdims=0)
        return self.reshape(f"{name}.flat", summed, slots * columns)

    def reshape(self, name: str, tensor: str, *dims: int) -> str:
        return self.node("Reshape", name, tensor, self.constant(f"{name}.shape", -1, *dims))

    def dense(self, name: str, tensor: str, sizes: Sequence[int], last: bool = False) -> str:
        """Fully connected layers with ReLU between them; `sizes` begins with the input's."""
        for index, (before, after) in enumerate(zip(sizes, sizes[1:])):
            layer = f"{name}.{index}"
            weight = self.weight(f"{layer}.weight", after, before)
            bias = self.weight(f"{layer}.bias", after)
            tensor = self.node("Gemm", layer, tensor, weight, bias, transB=1)
            if not last or index + 2 < len(sizes):
                tensor = self.node("Relu", f"{layer}.relu", tensor)
        return tensor

    def model(self, output: str, *dims: int) -> onnx.ModelProto:
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["N", *dims])
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [result], self.weights)
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        model.producer_name = "recommendation.py"
        return model


def ctrdnn(b: Builder) -> onnx.ModelProto:
    slots, columns = 26, 64
    ids = b.input("ids", slots, 4, integer=True)
    features = b.bag("embedding", ids, 16_000_000, columns, slots)
    sizes = [slots * columns, 2048, 2048, 1024, 1024, 1024, 512, 512, 512, 512]
    hidden = b.dense("fc", features, [*sizes, 256, 256, 256, 128, 64, 2], last=True)
    return b.model(hidden, 2)


def matchnet(b: Builder) -> onnx.ModelProto:
    towers = []
    for tower, rows, slots, columns in (("user", 8_000_000, 12, 64), ("item", 4_000_000, 8, 64)):
        ids = b.input(f"{tower}_ids", slots, 2, integer=True)
        features = b.bag(f"{tower}.embedding", ids, rows, columns, slots)
        sizes = [slots * columns, 1024, 1024, 512, 512, 256, 128]
        towers.append(b.dense(f"{tower}.fc", features, sizes))
    product = b.node("Mul", "product", *towers)
    joined = b.node("Concat", "joined", *towers, product, axis=1)
    return b.model(b.dense("match", joined, [384, 128, 2], last=True), 2)


def two_embeddings(b: Builder) -> onnx.ModelProto:
    user = b.bag("user", b.input("user_ids", 10, 1, integer=True), 20_000_000, 32, 10)
    item = b.bag("item", b.input("item_ids", 6, 1, integer=True), 2_000_000, 128, 6)
    joined = b.node("Concat", "joined", user, item, axis=1)
    sizes = [10 * 32 + 6 * 128, 1024, 1024, 512, 512, 256, 256, 128, 2]
    return b.model(b.dense("fc", joined, sizes, last=True), 2)


def nce(b: Builder) -> onnx.ModelProto:
    columns, candidates = 256, 21
    words = b.bag("context", b.input("context_ids", 1, 10, integer=True), 4_000_000, columns, 1)
    hidden = b.dense("fc", words, [columns, 512, columns], last=True)
    column = b.reshape("hidden", hidden, columns, 1)
    ids = b.input("candidate_ids", candidates, integer=True)  # the target, then the noise
    rows = b.embedding("candidates", ids, 4_000_000, columns)
    scores = b.node("MatMul", "scores", rows, column)
    return b.model(b.reshape("logits", scores, candidates), candidates)


# MLPerf Training 3.0, DLRM-DCNv2: rows of the tables of Criteo Terabyte, hashed to at most 40 M.
TERABYTE_ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209,
    11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip


def dlrm_terabyte(b: Builder) -> onnx.ModelProto:
    columns, vectors = 128, len(TERABYTE_ROWS) + 1
    # The dense features come in where the tables meet, so that the tables are the first layers.
    sparse = [
        b.node("Unsqueeze", f"table{index}.row", row, b.constant(f"table{index}.axis", 1))
        for index, row in enumerate(
            b.embedding(f"table{index}", b.input(f"ids{index}", integer=True), rows, columns)
            for index, rows in enumerate(TERABYTE_ROWS)
        )
    ]
    bottom = b.dense("bottom", b.input("dense", 13), [13, 512, 256, columns])
    row = b.node("Unsqueeze", "bottom.row", bottom, b.constant("bottom.axis", 1))
    stacked = b.node("Concat", "stacked", row, *sparse, axis=1)
    turned = b.node("Transpose", "turned", stacked, perm=[0, 2, 1])
    dots = b.node("MatMul", "interaction", stacked, turned)
    pairs = b.reshape("pairs", dots, vectors * vectors)
    lower = [i * vectors + j for i in range(vectors) for j in range(i)]
    picked = b.node("Gather", "picked", pairs, b.constant("lower", *lower), axis=1)
    joined = b.node("Concat", "joined", bottom, picked, axis=1)
    sizes = [columns + len(lower), 1024, 1024, 512, 256, 2]
    return b.model(b.dense("top", joined, sizes, last=True), 2)


MODELS: dict[str, Callable[[Builder], onnx.ModelProto]] = {
    "ctrdnn": ctrdnn,
    "matchnet": matchnet,
    "2emb": two_embeddings,
    "nce": nce,
    "dlrm-terabyte": dlrm_terabyte,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes recommendation models as ONNX files.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent)
    parser.add_argument("--rows-scale", type=float, default=1.0, metavar="F")
    options = parser.parse_args()
    if unknown := sorted(set(options.models) - MODELS.keys()):
        parser.error(f"unknown models: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    for name in options.models or MODELS:
        model = MODELS[name](Builder(name, options.rows_scale))
        (options.output / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()

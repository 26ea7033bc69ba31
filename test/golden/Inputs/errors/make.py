"""Writes the malformed ONNX models of the golden tests (needs the onnx package)."""
from pathlib import Path

from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT
HERE = Path(__file__).parent


def save(name, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs],
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in outputs],
        list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.producer_name = ""
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


node = helper.make_node
save("cyclic",
     [node("Add", ["x", "b"], ["a"], name="first"), node("Relu", ["a"], ["b"], name="second")],
     [("x", ["N", 4])], [("b", ["N", 4])])
save("missing-input",
     [node("Add", ["x", "nowhere"], ["y"], name="sum")], [("x", ["N", 4])], [("y", ["N", 4])])
save("absurd-size",
     [node("MatMul", ["x", "w"], ["y"], name="product")],
     [("x", ["N", 1 << 40]), ("w", [1 << 40, 1 << 40])], [("y", ["N", 1 << 40])])
weight = TensorProto(name="w", data_type=FLOAT, dims=[1 << 40, 1 << 40])
save("absurd-weight",
     [node("MatMul", ["x", "w"], ["y"], name="product")],
     [("x", ["N", 1 << 40])], [("y", ["N", 1 << 40])], [weight])
save("unknown-operator",
     [node("Frobnicate", ["x"], ["y"], name="odd")], [("x", ["N", 4])], [("y", ["N", 4])])
save("no-operators", [node("Shape", ["x"], ["y"], name="shape")], [("x", ["N", 8])], [("y", [2])])
save("fixed", [node("Relu", ["x"], ["y"], name="rectify")], [("x", [4, 4])], [("y", [4, 4])])

# Models that other operators or functions take part in.
own = [("", 17), ("com.example", 1)]


def save_own(name, nodes, values=(), functions=()):
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info("x", FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 4])],
        value_info=[helper.make_tensor_value_info(n, FLOAT, s) for n, s in values])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in own],
                              ir_version=8, functions=list(functions))
    model.producer_name = ""
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


mystery = [node("Mystery", ["x"], ["m"], name="mystery", domain="com.example"),
           node("Relu", ["m"], ["y"], name="rectify")]
save_own("opaque", mystery, [("m", ["N", 4])])
save_own("opaque-shapeless", mystery)
endless = helper.make_function(
    "com.example", "Endless", ["a"], ["b"], [node("Endless", ["a"], ["b"], domain="com.example")],
    [helper.make_opsetid(*o) for o in own])
save_own("endless", [node("Endless", ["x"], ["y"], name="call", domain="com.example")],
         functions=[endless])

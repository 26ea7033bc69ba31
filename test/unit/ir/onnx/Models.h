// Small ONNX models for the tests, written in the text form of libonnx's parser or built field by
// field, stored in a folder of their own.
#pragma once

#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif

#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace heterplan::test {

/// A folder that goes away with the test.
class Folder {
public:
  Folder() {
    llvm::SmallString<128> made;
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("heterplan-onnx", made));
    path = made.str().str();
  }
  ~Folder() { llvm::sys::fs::remove_directories(path); }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
    return path + "/" + name;
  }
  std::string path;
};

/// The model whose graph is `text`, as "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }".
inline onnx::ModelProto model(const std::string &text, int opset = 13) {
  onnx::ModelProto proto;
  std::string whole =
      "<ir_version: 7, opset_import: [ \"\" : " + std::to_string(opset) + " ]> " + text;
  auto status = onnx::OnnxParser::Parse(proto, whole.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return proto;
}

/// Two nodes, and nothing wrong with them.
inline onnx::ModelProto plain() {
  return model("g (float[N, 3] x) => (float[N, 3] z) { y = Relu(x) z = Exp(y) }");
}

/// Adds an initializer of `dims`; its values count up from `first`, or lie in an absent file.
inline onnx::TensorProto &weight(onnx::ModelProto &model, const std::string &name,
                                 std::vector<int64_t> dims, bool inlined = false, float first = 1) {
  auto &tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= dim;
  }
  if (inlined) {
    for (int64_t i = 0; i < count; ++i)
      tensor.add_float_data(first + static_cast<float>(i));
    return tensor;
  }
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto set = [&](const char *key, const std::string &value) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  set("location", "weights.bin");
  set("offset", "0");
  set("length", std::to_string(count * 4));
  return tensor;
}

inline void integers(onnx::ModelProto &model, const std::string &name,
                     std::vector<int64_t> values) {
  auto &tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (int64_t value : values)
    tensor.add_int64_data(value);
}

inline llvm::Expected<Graph> import(const onnx::ModelProto &model,
                                    const ImportOptions &options = {}) {
  Folder folder;
  return importGraph(folder.write("model.onnx", model.SerializeAsString()), options);
}

/// The imported graph; the test fails where there is none.
inline Graph imported(const onnx::ModelProto &model, const ImportOptions &options = {}) {
  auto graph = import(model, options);
  if (graph)
    return std::move(*graph);
  ADD_FAILURE() << toText(graph.takeError());
  return {};
}

inline LayerGraph grouped(const Graph &graph) {
  auto layers = groupLayers(graph);
  if (layers)
    return std::move(*layers);
  ADD_FAILURE() << toText(layers.takeError());
  return {};
}

/// The code of the error, with its text for the message of a failing test.
struct Failure {
  Diag code{};
  Location location;
  std::string text;
};
template <typename T> Failure failure(llvm::Expected<T> result) {
  Failure failure;
  if (result)
    return failure;
  handleAllErrors(
      result.takeError(),
      [&](const DiagnosticError &error) {
        failure.code = error.code;
        failure.location = error.location;
        llvm::raw_string_ostream os(failure.text);
        error.log(os);
      },
      [&](const llvm::ErrorInfoBase &error) {
        failure.text = "not a diagnostic: " + error.message();
      });
  return failure;
}

inline const GraphTensor &tensor(const Graph &graph, const std::string &name) {
  for (const GraphTensor &tensor : graph.tensors)
    if (tensor.name == name)
      return tensor;
  ADD_FAILURE() << "no tensor " << name;
  static const GraphTensor none;
  return none;
}

inline bool has(const Graph &graph, const std::string &op) {
  for (const GraphNode &node : graph.nodes)
    if (node.op == op)
      return true;
  return false;
}

inline Shape shape(std::initializer_list<Dim> dims) { return Shape(dims); }

} // namespace heterplan::test

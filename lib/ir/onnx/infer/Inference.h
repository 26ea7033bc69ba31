// Types and shapes of the results of operators that libonnx 1.12 (operator set 17) does not know,
// knows in an older form, or has no inference for: one table, Inference.def, and a function each.
#pragma once

#include "ir/onnx/read/ModelFile.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// One node whose results are to be typed. Every function reads `inputs` by the accessors, which
/// never fail, and sets the outputs that it knows; those left alone stay unknown.
class Inference {
public:
  using Dims = llvm::SmallVector<int64_t, 4>;

  Inference(const GraphNode &node, llvm::ArrayRef<KnownInput> inputs,
            llvm::MutableArrayRef<TensorType> outputs, const Location &place)
      : node(node), inputs(inputs), outputs(outputs), place(place) {}

  const GraphNode &node;
  llvm::ArrayRef<KnownInput> inputs;
  llvm::MutableArrayRef<TensorType> outputs;

  bool has(size_t index) const { return index < inputs.size() && inputs[index].type; }
  /// Undefined, or no dimensions, where the input is left out.
  DataType type(size_t index) const { return has(index) ? inputs[index].type->type : DataType(); }
  Dims dims(size_t index) const { return has(index) ? inputs[index].type->dims : Dims(); }
  int64_t rank(size_t index) const { return static_cast<int64_t>(dims(index).size()); }
  bool wants(size_t output) const { return output < outputs.size(); }

  int64_t integer(llvm::StringRef name, int64_t otherwise) const;
  std::string text(llvm::StringRef name, llvm::StringRef otherwise) const;
  bool hasAttribute(llvm::StringRef name) const { return node.attributes.count(name.str()); }
  /// Empty where absent.
  std::vector<int64_t> integers(llvm::StringRef name) const;
  /// Element type of the tensor that an attribute holds; empty if absent.
  std::optional<DataType> tensorType(llvm::StringRef name) const;
  /// Values of an input; nothing where they are not known or not integers.
  std::optional<std::vector<int64_t>> values(size_t index) const;
  std::optional<std::vector<double>> reals(size_t index) const;

  void set(size_t output, DataType type, llvm::ArrayRef<int64_t> dims);
  /// The type alone: the shape depends on values.
  void setType(size_t output, DataType type);

  llvm::Error fail(const std::string &why) const;

private:
  const Location &place;
};

struct CountRange {
  int least, most;
};

struct InferenceRule {
  const char *domain;
  const char *op;
  CountRange inputs; // of which the first `required` must be there
  CountRange outputs;
  int required;
  llvm::Error (*infer)(Inference &);
};

/// The line of Inference.def; null where libonnx is to be asked.
const InferenceRule *findInference(llvm::StringRef domain, llvm::StringRef op);

} // namespace heterplan

// Shapes that the file states for results of nodes. If a shape depends on the values of an input (a
// Reshape to a shape that is fed), the declared shape is the only source.
#pragma once

#include "ir/onnx/fold/Evaluation.h"
#include "ir/onnx/read/ModelFile.h"

#include <map>
#include <string>

namespace onnx {
class ModelProto;
}

namespace heterplan {

/// Fills `file.declared` from the outputs and the value_info of `model`'s graph.
void readDeclarations(const onnx::ModelProto &model, ModelFile &file);

class Declarations {
public:
  Declarations(const ModelFile &file, const Setting &setting);

  /// Gives each result of `node` that is not known the shape that the file declares, where its
  /// symbols are those of inputs. It is marked dynamic, since the values decide, unless the
  /// operator is opaque. A leading dimension that is the batch as written grows with the batch.
  void apply(const GraphNode &node, llvm::MutableArrayRef<TensorType> outputs) const;

private:
  const ModelFile &file;
  const Setting &setting;
  std::map<std::string, int64_t> symbols;

  bool bind(const std::vector<DeclaredDim> &declared, TensorType &type) const;
};

} // namespace heterplan

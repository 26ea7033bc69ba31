#include "ir/onnx/batch/FixedBatch.h"

#include "ir/onnx/batch/BatchLayout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace heterplan {

namespace {

constexpr size_t mostInputs = 8; // that the lines name

/// The axis of each input that counts samples, as a dictionary from axis to name; "None" of others.
std::vector<std::string> axesOf(const Batch &batch, const std::string &name) {
  std::vector<std::string> result;
  for (const Shape &shape : batch.inputs) {
    const auto *grows = find_if(shape, [](const Dim &dim) { return dim.perSample != 0; });
    result.push_back(grows == shape.end()
                         ? "None"
                         : "{" + std::to_string(grows - shape.begin()) + ": " + name + "}");
  }
  return result;
}

std::string listed(std::vector<std::string> items) {
  bool more = items.size() > mostInputs;
  items.resize(std::min(items.size(), mostInputs));
  return llvm::join(items, ", ") + (more ? ", ..." : "");
}

std::string dynamoLine(const Batch &batch) {
  return "export it with a symbolic batch: torch.onnx.export(model, args, \"model.onnx\", "
         "dynamo=True, optimize=False, dynamic_shapes=(" +
         listed(axesOf(batch, "torch.export.Dim(\"batch\")")) +
         (batch.inputs.size() == 1 ? ",)), " : ")), ") + "with args of two samples";
}

std::string torchScriptLine(const ModelFile &file, const Batch &batch) {
  std::vector<std::string> names, axes;
  std::vector<std::string> ofInputs = axesOf(batch, "\"batch\"");
  for (size_t i = 0; i < ofInputs.size(); ++i) {
    std::string name =
        "\"" + StringRef(file.graph.tensors[file.graph.inputs[i]].name).take_front(60).str() + "\"";
    names.push_back(name);
    if (ofInputs[i] != "None")
      axes.push_back(name + ": " + ofInputs[i]);
  }
  return "or with the older exporter: dynamo=False, input_names=[" + listed(names) +
         "], dynamic_axes={" + listed(axes) + "}";
}

Error refuse(const ModelFile &file, const Batch &batch, Location place, const std::string &why) {
  return Diagnostic(Diag::NoBatchDimension, std::move(place))
             .note({}, dynamoLine(batch))
             .note({}, torchScriptLine(file, batch))
         << "the model is written for a batch of " << batch.asWritten
         << " and cannot be computed for another: " << why;
}

} // namespace

Error refuseFixedBatch(const ModelFile &file, const Batch &batch, Error why) {
  Location place = file.at("");
  std::string text;
  handleAllErrors(
      std::move(why),
      [&](const DiagnosticError &error) {
        place = error.location;
        text = error.message;
      },
      [&](const ErrorInfoBase &error) { text = error.message(); });
  return refuse(file, batch, std::move(place), text);
}

Error checkShapesAsWritten(const ModelFile &file, const Batch &batch,
                           const GraphEvaluation &asWritten) {
  for (size_t id = 0; id < asWritten.types.size(); ++id) {
    const TensorType &type = asWritten.types[id];
    const GraphTensor &tensor = file.graph.tensors[id];
    if (!type.known || type.dynamic || tensor.dynamic || type.container != Container::None)
      continue;
    bool same = type.dims.size() == tensor.shape.size();
    for (size_t axis = 0; same && axis < type.dims.size(); ++axis)
      same = tensor.shape[axis].at(batch.asWritten) == type.dims[axis];
    if (!same)
      return refuse(file, batch, file.at(tensor.name),
                    "the shape of '" + tensor.name.substr(0, 100) + "' would follow another rule");
  }
  return Error::success();
}

Error checkEachSample(const ModelFile &file, const Batch &batch) {
  for (const SampleFinding &finding : analyseSamples(file.graph).findings) {
    const GraphNode &node = file.graph.nodes[finding.node];
    if (node.op == "BatchNormalization") // in training mode: it is meant to
      continue;
    return refuse(file, batch, file.at(finding.inside.empty() ? node.name : finding.inside),
                  "operator " + node.op + " " + finding.why);
  }
  return Error::success();
}

} // namespace heterplan

#include "codegen/ModelEmitter.h"

#include "codegen/Constants.h"
#include "codegen/Initializers.h"
#include "codegen/PythonCheck.h"
#include "support/Diagnostic.h"

using namespace llvm;
using heterplan::python::quote;

namespace heterplan {
namespace {
constexpr const char *imports = R"py(
import torch
import torch.nn as nn
import torch.nn.functional as F
)py";

constexpr const char *helpers = "\nfrom heterplan_runtime import operators as ops\n";

constexpr const char *baseClass = R"py(

class Stage(nn.Module):
    """A part of the model. Its state_dict() has the parameters and buffers by their ONNX names.

    receives, inputs: arguments of forward(), from the stage before and from the data
    sends: what forward() returns, always a tuple; for the last stage, the outputs of the model
    parameters_spec, buffers_spec: name -> (shape, dtype, how it starts)
    frozen_spec: as parameters_spec, parameters of the model that are not trained
    constants_spec: name -> (shape, dtype), to be read from the file of weights
    tables_spec: as parameters_spec, sparse tables, of which lookup() reads rows
    lookups: the table of each lookup, in the order of forward(); indices() returns what each reads
    segments: first layers of those that are computed again in the backward pass; none: nothing is
    gathered: parameters by the first layer that uses them, where replicas hold slices of them
    """

    layers = ()
    inputs = ()
    receives = ()
    sends = ()
    parameters_spec = {}
    frozen_spec = {}
    buffers_spec = {}
    constants_spec = {}
    tables_spec = {}
    lookups = ()
    segments = ()
    gathered = ()

    def __init__(self, tables=True):
        """Without tables something else must take the place of lookup()."""
        super().__init__()
        self._places = {}
        trained = self.parameters_spec | (self.tables_spec if tables else {})
        for name, (shape, dtype, _) in trained.items():
            tensor = torch.zeros(shape, dtype=getattr(torch, dtype))
            module, leaf = self._place(name)
            module._parameters[leaf] = nn.Parameter(tensor)
        kept = self.frozen_spec | self.buffers_spec | self.constants_spec
        for name, (shape, dtype, *_) in kept.items():
            module, leaf = self._place(name)
            module._buffers[leaf] = torch.zeros(shape, dtype=getattr(torch, dtype))

    def _place(self, name):
        """The module that holds the tensor `a.b.c`, nested as its name says, and its name there."""
        *path, leaf = name.split(".")
        module = self
        for part in path:
            if part not in module._modules:
                module._modules[part] = nn.Module()
            module = module._modules[part]
        self._places[name] = module, leaf
        return module, leaf

    def tensor(self, name):
        """The parameter or buffer with this ONNX name."""
        module, leaf = self._places[name]
        return module._parameters[leaf] if leaf in module._parameters else module._buffers[leaf]

    def constant(self, name, values, dtype, shape=None):
        """Keeps a small constant, which state_dict() leaves out; the shape is that of an empty
        one."""
        module, leaf = self._place(name)
        tensor = torch.tensor(values, dtype=dtype)
        module._buffers[leaf] = tensor if shape is None else tensor.reshape(shape)
        module._non_persistent_buffers_set.add(leaf)

    def lookup(self, name, indices):
        """Rows of a sparse table."""
        return F.embedding(indices, self.tensor(name))

    def indices(self):
        """What each lookup reads, computed from the inputs alone."""
        return ()

    def checkpoint(self, segment, *arguments):
        """Runs a segment; training replaces it by what keeps only the arguments of the segment."""
        return segment(*arguments)

    def begin_layer(self):
        """The code of a layer follows; training lets go of what it gathered for others."""

    def dropout(self, name, x, ratio, training, axis, rows):
        """Dropout of one process; training replaces it by one that knows the samples, which lie on
        an axis and have so many rows of it each."""
        return F.dropout(x, ratio, training)

    def batch_norm(self, x, weight, bias, running_mean, running_var, momentum, eps, training):
        """Batch normalisation of one process; replicas of a stage replace it by one of them all."""
        return F.batch_norm(
            x, running_mean, running_var, weight, bias, training, momentum, eps
        )
)py";

class ModelWriter {
public:
  /// `locals`: the graphs of the stages, null if whole; empty: all are whole.
  ModelWriter(const Graph &whole, const std::vector<StageModule> &stages,
              ArrayRef<const LocalGraph *> locals = {})
      : stages(stages), whole(whole), locals(locals), use(whole) {}

  std::string write();

private:
  /// A tensor of the graph of the stage that is written.
  const GraphTensor &tensor(TensorId id) const {
    return (local ? local->graph : whole).tensors[id];
  }
  void beginStage(size_t index) { local = locals.empty() ? nullptr : locals[index]; }
  void writeDegrees();
  void writeSignature(StringRef name, ArrayRef<TensorId> tensors);
  void writeBounds();
  void writeNames(StringRef field, ArrayRef<TensorId> tensors);
  void writeStored(const StageModule &stage);
  void writeStage(const StageModule &stage, size_t index);
  void writeFunction(StringRef name, std::vector<std::string> arguments, bool usesStored,
                     StringRef body, ArrayRef<std::string> results);
  void writeGathered(const StageModule &stage);
  void writeSlices(const StageModule &stage);
  void writeConstructor(const StageModule &stage);
  void writeIndices(const StageModule &stage);
  std::string shapeOf(TensorId id) const { return shapeOf(tensor(id)); }
  static std::string shapeOf(const GraphTensor &tensor);

  const std::vector<StageModule> &stages;
  const Graph &whole; // the model; stored tensors have the same numbers in it
  ArrayRef<const LocalGraph *> locals;
  GraphUse use;                      // of `whole`
  const LocalGraph *local = nullptr; // of the shards of the stage that is written
  std::string text;
};

/// `name = {` and one line an entry.
std::string dictionary(int indent, StringRef name, const std::vector<std::string> &entries) {
  std::string margin(indent, ' ');
  if (entries.empty())
    return margin + name.str() + " = {}\n";
  std::string result = margin + name.str() + " = {\n";
  for (const std::string &entry : entries)
    (((result += margin) += "    ") += entry) += ",\n";
  return result + margin + "}\n";
}

void ModelWriter::writeSignature(StringRef name, ArrayRef<TensorId> tensors) {
  std::vector<std::string> entries;
  for (TensorId id : tensors) {
    std::vector<std::string> dims;
    for (Dim dim : tensor(id).shape)
      dims.push_back(python::tuple(ArrayRef<int64_t>{dim.perSample, dim.fixed}));
    entries.push_back(quote(tensor(id).name) + ": (" + quote(nameOf(tensor(id).type)) + ", " +
                      python::tuple(dims) + ")");
  }
  text += dictionary(0, name, entries);
}

/// Random data for an input of indices must stay within the table that they are looked up in.
void ModelWriter::writeBounds() {
  std::vector<std::string> entries;
  for (TensorId id : whole.inputs)
    if (int64_t bound = indexBound(whole, use, id))
      entries.push_back(quote(tensor(id).name) + ": " + std::to_string(bound));
  if (!entries.empty())
    text += "# indices: below the size of the table\n" + dictionary(0, "INPUT_BOUNDS", entries);
}

void ModelWriter::writeNames(StringRef field, ArrayRef<TensorId> tensors) {
  std::vector<std::string> names;
  for (TensorId id : tensors)
    names.push_back(quote(tensor(id).name));
  text += python::statement(4, field.str() + " = " + python::tuple(names));
}

std::string ModelWriter::shapeOf(const GraphTensor &tensor) {
  std::vector<int64_t> sizes;
  for (Dim dim : tensor.shape)
    sizes.push_back(dim.fixed);
  return python::tuple(sizes);
}

void ModelWriter::writeStored(const StageModule &stage) {
  auto entry = [&](TensorId id) {
    return quote(tensor(id).name) + ": (" + shapeOf(id) + ", " + quote(nameOf(tensor(id).type));
  };
  for (auto [field, ids] :
       {std::pair("parameters_spec", &stage.parameters), std::pair("tables_spec", &stage.tables),
        std::pair("frozen_spec", &stage.frozen), std::pair("buffers_spec", &stage.buffers)}) {
    std::vector<std::string> entries;
    for (TensorId id : *ids)
      entries.push_back(entry(id) + ", " + quote(initializerOf(whole, use, id)) + ")");
    if (!entries.empty())
      text += dictionary(4, field, entries);
  }
  std::vector<std::string> entries;
  for (TensorId id : stage.constants)
    entries.push_back(entry(id) + ")");
  if (!entries.empty())
    text += dictionary(4, "constants_spec", entries);
}

void ModelWriter::writeGathered(const StageModule &stage) {
  std::vector<std::string> layers;
  for (const std::vector<TensorId> &layer : stage.gathered) {
    std::vector<std::string> names;
    for (TensorId id : layer)
      names.push_back(quote(tensor(id).name));
    if (!names.empty())
      layers.push_back(python::tuple(names));
  }
  if (!layers.empty())
    text += python::statement(4, "gathered = " + python::tuple(layers));
}

void ModelWriter::writeSlices(const StageModule &stage) {
  if (!local)
    return;
  std::vector<std::string> entries;
  for (const auto *stored : {&stage.parameters, &stage.frozen, &stage.buffers, &stage.constants})
    for (TensorId id : *stored)
      if (const ShardState &state = local->states[id]; state.isSharded())
        entries.push_back(quote(tensor(id).name) + ": (" + std::to_string(state.axis) + ", " +
                          python::tuple(state.pattern) + ", " + shapeOf(whole.tensors[id]) + ")");
  if (!entries.empty())
    text += "    # name -> axis, lengths of segments that repeat to its end, whole shape\n" +
            dictionary(4, "slices_spec", entries);
}

void ModelWriter::writeConstructor(const StageModule &stage) {
  if (stage.literals.empty())
    return;
  text += "\n    def __init__(self, tables=True):\n        super().__init__(tables)\n";
  for (TensorId id : stage.literals) {
    std::vector<std::string> arguments{quote(tensor(id).name), listLiteral(tensor(id)),
                                       python::torchType(tensor(id).type)};
    if (fixedElementCount(tensor(id)) == 0) // a list says nothing of the axes behind an empty one
      arguments.push_back(shapeOf(id));
    text += python::statement(8, python::call("self.constant", arguments));
  }
}

void ModelWriter::writeIndices(const StageModule &stage) {
  if (stage.lookups.empty())
    return;
  std::vector<std::string> arguments = stage.inputArguments;
  arguments.insert(arguments.begin(), "self");
  std::string head = python::statement(4, python::call("def indices", arguments));
  text += "\n" + StringRef(head).rtrim().str() + ":\n" + stage.indicesBody;
  text += python::statement(8, "return " + python::tuple(stage.indices));
}

void ModelWriter::writeStage(const StageModule &stage, size_t index) {
  text += "\n\nclass Stage" + std::to_string(index) + "(Stage):\n";
  std::vector<std::string> layers;
  for (const std::string &layer : stage.layers)
    layers.push_back(quote(layer));
  text += python::statement(4, "layers = " + python::tuple(layers));
  writeNames("inputs", stage.inputs);
  writeNames("receives", stage.receives);
  writeNames("sends", stage.sends);
  writeStored(stage);
  std::vector<std::string> lookups;
  for (const TableLookup &lookup : stage.lookups)
    lookups.push_back(quote(tensor(lookup.table).name));
  if (!lookups.empty())
    text += python::statement(4, "lookups = " + python::tuple(lookups));
  std::vector<std::string> segments;
  for (const StageSegment &segment : stage.segments)
    segments.push_back(quote(segment.firstLayer));
  if (!segments.empty())
    text += python::statement(4, "segments = " + python::tuple(segments));
  writeGathered(stage);
  writeSlices(stage);
  writeConstructor(stage);
  writeIndices(stage);
  writeFunction("forward", stage.arguments, stage.usesStored, stage.body, stage.results);
  for (size_t i = 0; i < stage.segments.size(); ++i) {
    const StageSegment &segment = stage.segments[i];
    writeFunction("segment" + std::to_string(i), segment.arguments, segment.usesStored,
                  segment.body, segment.results);
  }
}

void ModelWriter::writeFunction(StringRef name, std::vector<std::string> arguments, bool usesStored,
                                StringRef body, ArrayRef<std::string> results) {
  arguments.insert(arguments.begin(), "self");
  std::string head = python::statement(4, python::call(("def " + name).str(), arguments));
  text += "\n" + StringRef(head).rtrim().str() + ":\n";
  if (usesStored)
    text += "        p = self.tensor\n";
  else
    body = body.ltrim('\n');
  text += body.str() + "\n";
  text += python::statement(8, "return " + python::tuple(results.vec()));
}

/// The number of devices that share each layer: of all stages, or one for each.
void ModelWriter::writeDegrees() {
  if (none_of(locals, [](const LocalGraph *each) { return each != nullptr; }))
    return;
  std::vector<int64_t> degrees;
  for (const LocalGraph *each : locals)
    degrees.push_back(each ? each->degree : 1);
  text += "# devices that share every layer; training sets `shards` of each stage, which takes the "
          "collectives\nSHARDS = " +
          (is_splat(degrees) ? std::to_string(degrees[0]) : python::tuple(degrees)) + "\n";
}

std::string ModelWriter::write() {
  text = "\"\"\"" + python::comment(whole.name) + " in " + std::to_string(stages.size()) +
         (stages.size() == 1 ? " stage" : " stages") +
         ". Generated by heterplan; do not edit.\"\"\"\n" + imports;
  if (any_of(stages, [](const StageModule &stage) { return stage.usesHelpers; }))
    text += helpers;
  text += baseClass;
  text += "\n\nMODEL = " + quote(whole.name) + "\n";
  writeDegrees();
  text += "# name -> dtype, and (per sample, fixed) of each dimension: per sample * N + fixed\n";
  writeSignature("INPUTS", whole.inputs);
  writeBounds();
  beginStage(stages.size() - 1);
  writeSignature("OUTPUTS", stages.back().sends);
  for (size_t index = 0; index < stages.size(); ++index) {
    beginStage(index);
    writeStage(stages[index], index);
  }
  std::vector<std::string> names;
  for (size_t index = 0; index < stages.size(); ++index)
    names.push_back("Stage" + std::to_string(index));
  text += "\n\n" + python::statement(0, "STAGES = " + python::tuple(names));
  return std::move(text);
}

/// `text`, unless it is no Python.
Expected<std::string> checked(std::string text, const Graph &graph) {
  if (auto error = python::findSyntaxError(text))
    return Diagnostic(Diag::NotGeneratable, {graph.name, 0, 0, ""})
               .note({}, "names or nesting of the model lead to it; please report the model")
           << "the code that is written for the model is no Python, " << *error;
  return text;
}
} // namespace

Expected<std::string> emitModel(const Graph &graph, const std::vector<StageModule> &stages) {
  return checked(ModelWriter(graph, stages).write(), graph);
}

Expected<std::string> emitModel(const DividedStages &stages, const Graph &whole) {
  return checked(ModelWriter(whole, stages.shards, stages.locals).write(), whole);
}

Expected<std::string> emitModel(const Graph &graph, const LayerGraph &layers, const Plan &plan) {
  auto stages = buildModules(graph, layers, plan);
  if (!stages)
    return stages.takeError();
  return emitModel(graph, *stages);
}

} // namespace heterplan

#include "ir/onnx/Importer.h"

#include "ir/onnx/Batch.h"
#include "ir/onnx/Evaluation.h"
#include "ir/onnx/ModelFile.h"
#include "ir/onnx/Rebatching.h"
#include "ir/onnx/Roles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {

/// Batches that shapes are inferred at, times the batch as written: primes, so that they are not
/// mistaken for a dimension of the model. Two determine a line; the third checks it.
constexpr int64_t probes[] = {31, 37, 41};
/// Elements of a tensor that is kept in terms of the batch: shapes have no more.
constexpr size_t mostSizes = 64;

/// The model at the probes.
struct Probed {
  Batch batch;
  std::vector<Evaluation> evaluations;
  std::vector<int64_t> sizes;

  bool grows(const Graph &graph) const {
    return any_of(graph.outputs, [&](TensorId id) {
      return evaluations[0].types[id].dims != evaluations[1].types[id].dims;
    });
  }
};

class Import {
public:
  Import(ModelFile &file, const ImportOptions &options) : file(file), options(options) {}

  Expected<Graph> run() {
    roles = decideRoles(file);
    for (TensorRole role : roles)
      trained.push_back(role == TensorRole::Parameter || role == TensorRole::Buffer);
    if (Error error = findEvaluations())
      return error;
    if (Error error = setTypes())
      return error;
    setConstants();
    applyRepairs(file.graph, evaluations[0].repairs);
    dropShapeOperands();
    prune();
    markDifferentiable(file.graph);
    addNotes();
    return std::move(file.graph);
  }

private:
  ModelFile &file;
  const ImportOptions &options;
  Batch batch;
  std::vector<TensorRole> roles;
  std::vector<bool> trained;
  std::vector<Evaluation> evaluations; // at each probe
  std::vector<int64_t> sizes;

  /// Evaluates the model at the probes, with the most plausible batch for which that succeeds and
  /// an output grows; fails as the first does where it succeeds for none.
  Error findEvaluations() {
    auto batches = findBatches(file, options);
    if (!batches)
      return batches.takeError();
    std::optional<Probed> found;
    Error refusal = Error::success();
    for (size_t i = 0; i < batches->size() && !(found && found->grows(file.graph)); ++i) {
      int64_t baked = 0;
      auto probed = probe((*batches)[i], baked);
      if (probed) {
        if (!found || probed->grows(file.graph))
          found = std::move(*probed);
        continue;
      }
      addBaked(*batches, i, baked);
      if (refusal)
        consumeError(probed.takeError());
      else
        refusal = probed.takeError();
    }
    if (!found)
      return refusal;
    consumeError(std::move(refusal));
    batch = std::move(found->batch);
    evaluations = std::move(found->evaluations);
    sizes = std::move(found->sizes);
    return Error::success();
  }

  /// The inputs leave the batch open, but inside may be that of the example: mostly one.
  static void addBaked(std::vector<Batch> &batches, size_t failed, int64_t baked) {
    if (batches[failed].asWritten)
      return;
    auto add = [&](int64_t size) {
      Batch again = batches[failed];
      again.asWritten = size;
      again.notes.push_back("a batch of " + std::to_string(size) +
                            " is baked into the model, whose inputs leave it open");
      batches.push_back(std::move(again));
    };
    if (baked > 1)
      add(baked);
    add(1);
  }

  Expected<Probed> probe(const Batch &candidate, int64_t &baked) const {
    Probed result;
    result.batch = candidate;
    Setting setting;
    setting.trained = &trained;
    setting.bakedBatch = &baked;
    Evaluation asWritten;
    if (candidate.asWritten) {
      setting.batch = candidate.asWritten;
      setting.inputs = candidate.at(candidate.asWritten);
      auto evaluation = evaluate(file, setting);
      if (!evaluation)
        return evaluation.takeError();
      asWritten = std::move(*evaluation);
      setting.asWritten = &asWritten;
      setting.batchAsWritten = candidate.asWritten;
    }
    for (int64_t prime : probes) {
      setting.batch = prime * std::max<int64_t>(1, candidate.asWritten);
      setting.inputs = candidate.at(setting.batch);
      auto evaluation = evaluate(file, setting);
      if (!evaluation)
        return evaluation.takeError();
      result.evaluations.push_back(std::move(*evaluation));
      result.sizes.push_back(setting.batch);
    }
    return result;
  }

  void addNotes() {
    for (std::string &note : batch.notes)
      file.graph.notes.push_back(std::move(note));
    if (file.separated)
      file.graph.notes.push_back(std::to_string(file.separated) +
                                 " vectors that the file shares, as exporters do with equal "
                                 "initial values, are trained apart");
  }

  Error notLinear(const GraphTensor &tensor) {
    return Diagnostic(Diag::UnknownShape, file.at(tensor.name))
               .note({}, "each dimension must be a multiple of the batch plus a constant")
           << "the shape of '" << tensor.name << "' does not grow linearly with the batch";
  }

  /// The line through the dimensions at the probes.
  std::optional<Dim> fit(size_t id, size_t axis) const {
    auto dim = [&](int probe) { return evaluations[probe].types[id].dims[axis]; };
    auto line = lineThrough(dim(0), dim(1), dim(2));
    return line && line->perSample >= 0 ? line : std::nullopt;
  }

  /// The line through values at the probes.
  std::optional<Dim> lineThrough(int64_t first, int64_t second, int64_t third) const {
    int64_t run = sizes[1] - sizes[0], rise = 0, offset = 0, last = 0, expected = 0;
    if (__builtin_sub_overflow(second, first, &rise) || rise % run)
      return std::nullopt;
    int64_t slope = rise / run;
    if (__builtin_mul_overflow(slope, sizes[0], &offset) ||
        __builtin_sub_overflow(first, offset, &offset) ||
        __builtin_mul_overflow(slope, sizes[2], &last) ||
        __builtin_add_overflow(last, offset, &expected) || expected != third)
      return std::nullopt;
    return Dim{slope, offset};
  }

  Error setTypes() {
    for (size_t id = 0; id < file.graph.tensors.size(); ++id) {
      GraphTensor &tensor = file.graph.tensors[id];
      const TensorType &type = evaluations[0].types[id];
      tensor.role = roles[id];
      tensor.type = type.type;
      tensor.shape.clear();
      if (!type.known)
        continue; // unused, or it would have been refused
      for (const Evaluation &evaluation : evaluations)
        if (evaluation.types[id].dims.size() != type.dims.size())
          return notLinear(tensor);
      for (size_t axis = 0; axis < type.dims.size(); ++axis) {
        auto dim = fit(id, axis);
        if (!dim)
          return notLinear(tensor);
        tensor.shape.push_back(*dim);
      }
    }
    return Error::success();
  }

  /// Tensors whose value does not depend on the batch become constants, integers that grow linearly
  /// with it become sizes.
  void setConstants() {
    for (size_t id = 0; id < file.graph.tensors.size(); ++id) {
      GraphTensor &tensor = file.graph.tensors[id];
      const TensorData *value = evaluations[0].values[id];
      bool known = tensor.role == TensorRole::Activation && value, same = known;
      for (const Evaluation &evaluation : evaluations) {
        known = known && evaluation.values[id];
        same = known && same && *evaluation.values[id] == *value;
      }
      if (same) {
        tensor.role = TensorRole::Constant;
        tensor.data = *value;
      } else if (known) {
        setSizes(id);
      }
    }
  }

  void setSizes(size_t id) {
    GraphTensor &tensor = file.graph.tensors[id];
    const TensorData &first = *evaluations[0].values[id];
    size_t count = first.bytes.size() / sizeof(int64_t);
    if (tensor.type != DataType::Int64 || count > mostSizes)
      return;
    std::vector<Dim> result;
    for (size_t i = 0; i < count; ++i) {
      auto value = [&](int probe) {
        const std::string &bytes = evaluations[probe].values[id]->bytes;
        return bytes.size() == first.bytes.size()
                   ? support::endian::read64le(bytes.data() + i * sizeof(int64_t))
                   : 0;
      };
      auto line = lineThrough(static_cast<int64_t>(value(0)), static_cast<int64_t>(value(1)),
                              static_cast<int64_t>(value(2)));
      if (!line)
        return;
      result.push_back(*line);
    }
    tensor.role = TensorRole::Size;
    tensor.sizes = std::move(result);
  }

  bool isConstant(TensorId id) const {
    return id == noTensor || file.graph.tensors[id].role == TensorRole::Constant;
  }
  /// Whether no node needs to compute it.
  bool isKnown(TensorId id) const {
    return isConstant(id) || file.graph.tensors[id].role == TensorRole::Size;
  }

  /// Whoever runs these nodes takes the shape from that of the output, so the arithmetic that
  /// computes it from the batch is not needed.
  void dropShapeOperands() {
    for (GraphNode &node : file.graph.nodes) {
      size_t operand = node.op == "Reshape" || node.op == "Expand" ? 1
                       : node.op == "Resize"                       ? 3
                                                                   : node.inputs.size();
      if (operand < node.inputs.size() && !isConstant(node.inputs[operand]))
        node.inputs[operand] = noTensor;
    }
  }

  /// Drops nodes that compute constants or nothing that is used, and tensors that are left over.
  void prune() {
    Graph &graph = file.graph;
    std::vector<bool> needed(graph.tensors.size()), kept(graph.nodes.size());
    for (TensorId id : graph.outputs)
      needed[id] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      GraphNode &node = graph.nodes[i];
      for (TensorId &id : node.outputs) {
        if (id != noTensor && (!needed[id] || isKnown(id)))
          id = noTensor;
        kept[i] = kept[i] || id != noTensor;
      }
      if (kept[i])
        for (TensorId id : node.inputs)
          if (id != noTensor)
            needed[id] = true;
    }
    for (TensorId id : graph.inputs)
      needed[id] = true;
    compact(needed, kept);
  }

  void compact(const std::vector<bool> &needed, const std::vector<bool> &kept) {
    Graph &graph = file.graph;
    std::vector<TensorId> number(graph.tensors.size(), noTensor);
    std::vector<GraphTensor> tensors;
    for (size_t id = 0; id < number.size(); ++id)
      if (needed[id]) {
        number[id] = static_cast<TensorId>(tensors.size());
        tensors.push_back(std::move(graph.tensors[id]));
      }
    std::vector<GraphNode> nodes;
    auto renumber = [&](auto &ids) {
      for (TensorId &id : ids)
        id = id == noTensor ? noTensor : number[id];
    };
    for (size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) {
        renumber(graph.nodes[i].inputs);
        renumber(graph.nodes[i].outputs);
        nodes.push_back(std::move(graph.nodes[i]));
      }
    renumber(graph.inputs);
    renumber(graph.outputs);
    graph.tensors = std::move(tensors);
    graph.nodes = std::move(nodes);
  }
};

} // namespace

Expected<Graph> importGraph(StringRef path, const ImportOptions &options) {
  auto file = ModelFile::read(path);
  if (!file)
    return file.takeError();
  return Import(*file, options).run();
}

} // namespace heterplan

#include "ir/onnx/Importer.h"

#include "ir/Bodies.h"
#include "ir/onnx/batch/Batch.h"
#include "ir/onnx/batch/FedWeights.h"
#include "ir/onnx/batch/FixedBatch.h"
#include "ir/onnx/batch/Rebatching.h"
#include "ir/onnx/fold/Evaluation.h"
#include "ir/onnx/group/Roles.h"
#include "ir/onnx/normalize/AttentionFusion.h"
#include "ir/onnx/normalize/Identities.h"
#include "ir/onnx/normalize/NormFusion.h"
#include "ir/onnx/normalize/RecurrentWeights.h"
#include "ir/onnx/normalize/Simplification.h"
#include "ir/onnx/read/ExporterTraces.h"
#include "ir/onnx/read/ModelFile.h"
#include "ir/onnx/read/Types.h"

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
  GraphEvaluation asWritten; // where the batch is a number in the file
  std::vector<GraphEvaluation> evaluations;
  std::vector<int64_t> sizes;

  bool grows(const Graph &graph) const {
    return any_of(graph.outputs, [&](TensorId id) {
      return evaluations[0].types[id].dims != evaluations[1].types[id].dims;
    });
  }
};

/// The type that CastLike takes from its second operand is known: that operand is not read.
void replaceCastLike(Graph &graph) {
  for (GraphNode &node : graph.nodes) {
    if (node.op != "CastLike" || !node.domain.empty() || node.inputs.size() != 2 ||
        graph.tensors[node.inputs[1]].type == DataType::Undefined)
      continue;
    node.op = "Cast";
    node.attributes["to"] = static_cast<int64_t>(graph.tensors[node.inputs[1]].type);
    node.inputs.pop_back();
  }
}

/// Makes axes of Transpose that count from the end count from the front.
template <typename Nodes> void countAxesFromFront(Nodes &nodes) {
  for (GraphNode &node : nodes) {
    for (GraphBody &body : node.bodies)
      countAxesFromFront(body.nodes);
    auto found = node.attributes.find("perm");
    if (node.op != "Transpose" || !node.domain.empty() || found == node.attributes.end())
      continue;
    if (auto *axes = std::get_if<std::vector<int64_t>>(&found->second))
      for (int64_t &axis : *axes)
        axis += axis < 0 ? static_cast<int64_t>(axes->size()) : 0;
  }
}

class Import {
public:
  /// `first`: the candidate for the batch to begin with, in the order of findBatches().
  Import(ModelFile &file, const ImportOptions &options, size_t first)
      : file(file), options(options), candidate(first) {}

  /// After a failure: the next candidate, which a file that is read anew may be tried with.
  std::optional<size_t> nextCandidate() const {
    return candidate + 1 < candidates ? std::optional(candidate + 1) : std::nullopt;
  }

  Expected<Graph> run() {
    takeFedWeights(file);
    countAxesFromFront(file.graph.nodes);
    roles = decideRoles(file, file.graph.notes);
    if (Error error = applyPatterns(file, options.freeze, options.train, roles))
      return error;
    noteUnstated(file, !options.freeze.empty() || !options.train.empty(), roles,
                 file.graph.guesses);
    for (TensorRole role : roles)
      trained.push_back(isWeight(role) || role == TensorRole::Buffer);
    if (Error error = findEvaluations())
      return error;
    if (Error error = setTypes())
      return batch.asWritten ? refuseFixedBatch(file, batch, std::move(error)) : std::move(error);
    replaceCastLike(file.graph);
    if (batch.asWritten)
      if (Error error = checkShapesAsWritten(file, batch, asWritten))
        return error;
    setConstants();
    applyRepairs(file.graph, evaluations[0].repairs);
    setIterations();
    takeBranches(file.graph);
    takeModuleWeights(file.graph);
    removeIdentities(file.graph, evaluations);
    fuseActivations(file.graph);
    fuseNormalizations(file.graph);
    fuseAttention(file.graph, evaluations);
    dropShapeOperands(file.graph);
    prune(file.graph);
    markDifferentiable(file.graph);
    if (file.fromPyTorch && !file.parameters)
      noteBounds(file.graph, file.graph.guesses);
    if (batch.asWritten)
      if (Error error = checkEachSample(file, batch))
        return error;
    addNotes();
    return std::move(file.graph);
  }

private:
  ModelFile &file;
  const ImportOptions &options;
  size_t candidate, candidates = 0; // for the batch: the one that is taken, and how many there are
  Batch batch;
  GraphEvaluation asWritten;
  std::vector<TensorRole> roles;
  std::vector<bool> trained;
  std::vector<GraphEvaluation> evaluations; // at each probe
  std::vector<int64_t> sizes;

  /// Evaluates the model at the probes, with the most plausible batch for which that succeeds and
  /// an output grows; fails as the first does where it succeeds for none.
  Error findEvaluations() {
    auto batches = findBatches(file, options);
    if (!batches)
      return batches.takeError();
    std::optional<Probed> found;
    Error refusal = Error::success();
    for (size_t i = candidate; i < batches->size() && !(found && found->grows(file.graph)); ++i) {
      int64_t baked = 0;
      auto probed = probe((*batches)[i], baked);
      if (probed) {
        if (!found || probed->grows(file.graph)) {
          found = std::move(*probed);
          candidate = i;
        }
        continue;
      }
      addBaked(*batches, i, baked);
      if (refusal)
        consumeError(probed.takeError());
      else
        refusal = probed.takeError();
    }
    candidates = found ? batches->size() : 0;
    if (!found)
      return refusal;
    consumeError(std::move(refusal));
    batch = std::move(found->batch);
    asWritten = std::move(found->asWritten);
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
    if (candidate.asWritten) {
      setting.batch = candidate.asWritten;
      setting.inputs = candidate.at(candidate.asWritten);
      auto evaluation = evaluate(file, setting);
      if (!evaluation)
        return evaluation.takeError();
      result.asWritten = std::move(*evaluation);
      setting.asWritten = &result.asWritten;
      setting.batchAsWritten = candidate.asWritten;
    }
    for (int64_t prime : probes) {
      setting.batch = prime * std::max<int64_t>(1, candidate.asWritten);
      setting.inputs = candidate.at(setting.batch);
      auto evaluation = evaluate(file, setting);
      if (!evaluation)
        return candidate.asWritten ? refuseFixedBatch(file, candidate, evaluation.takeError())
                                   : evaluation.takeError();
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

  /// The line through `sizesAt`, sizes at the probes.
  std::optional<Dim> fit(ArrayRef<int64_t> sizesAt) const {
    auto line = lineThrough(sizesAt[0], sizesAt[1], sizesAt[2]);
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

  /// The lines through the dimensions that `dims(probe)` gives.
  template <typename DimsOf> std::optional<Shape> fitShape(DimsOf dims) const {
    Shape shape;
    for (size_t axis = 0; axis < dims(0).size(); ++axis) {
      int64_t sizesAt[std::size(probes)];
      for (size_t probe = 0; probe < std::size(probes); ++probe) {
        if (dims(probe).size() != dims(0).size())
          return std::nullopt;
        sizesAt[probe] = dims(probe)[axis];
      }
      auto line = fit(sizesAt);
      if (!line)
        return std::nullopt;
      shape.push_back(*line);
    }
    return shape;
  }

  Error setTypes() {
    for (size_t id = 0; id < file.graph.tensors.size(); ++id) {
      GraphTensor &tensor = file.graph.tensors[id];
      const TensorType &type = evaluations[0].types[id];
      tensor.role = roles[id];
      tensor.type = type.type;
      tensor.container = type.container;
      tensor.shape.clear();
      bool everywhere = type.known;
      for (const GraphEvaluation &evaluation : evaluations) {
        tensor.dynamic |= evaluation.types[id].dynamic || evaluation.types[id].shapeless;
        everywhere = everywhere && evaluation.types[id].known;
      }
      if (!everywhere)
        continue; // unused, in a branch that is not taken, or it would have been refused
      auto shape = fitShape(
          [&](size_t probe) -> const Sizes & { return evaluations[probe].types[id].dims; });
      if (!shape)
        return notLinear(tensor);
      tensor.shape = std::move(*shape);
      setElements(id);
    }
    return Error::success();
  }

  void setElements(size_t id) {
    const auto &first = evaluations[0].types[id].elements;
    for (const GraphEvaluation &evaluation : evaluations)
      if (!first || !evaluation.types[id].elements ||
          evaluation.types[id].elements->size() != first->size())
        return;
    std::vector<Shape> shapes;
    for (size_t i = 0; i < first->size(); ++i) {
      auto shape = fitShape([&](size_t probe) -> const Sizes & {
        return (*evaluations[probe].types[id].elements)[i];
      });
      if (!shape)
        return;
      shapes.push_back(std::move(*shape));
    }
    file.graph.tensors[id].elements = std::move(shapes);
  }

  void setIterations() {
    eachNode(file.graph.nodes, [&](GraphNode &node) {
      int64_t counts[std::size(probes)];
      bool bound = false;
      for (size_t probe = 0; probe < std::size(probes); ++probe) {
        auto found = evaluations[probe].iterations.find(node.number);
        if (found == evaluations[probe].iterations.end())
          return;
        counts[probe] = found->second.count;
        bound |= found->second.bound;
      }
      if (auto line = fit(counts))
        node.iterations = Iterations{*line, bound};
    });
  }

  /// Tensors whose value does not depend on the batch become constants, integers that grow linearly
  /// with it become sizes.
  void setConstants() {
    std::vector<bool> variable(file.graph.tensors.size()); // Loop's condition, true in its body
    eachNode(file.graph.nodes, [&](const GraphNode &node) {
      for (const GraphBody &body : node.bodies)
        for (TensorId id : body.inputs)
          variable[id] = true;
    });
    for (size_t id = 0; id < file.graph.tensors.size(); ++id) {
      GraphTensor &tensor = file.graph.tensors[id];
      const TensorData *value = evaluations[0].values[id];
      bool known = tensor.role == TensorRole::Activation && value && !variable[id], same = known;
      for (const GraphEvaluation &evaluation : evaluations) {
        known = known && evaluation.values[id] && !evaluation.assumed[id];
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
    bool sameLength = all_of(evaluations, [&](const GraphEvaluation &evaluation) {
      return evaluation.values[id]->bytes.size() == first.bytes.size();
    });
    if (tensor.type != DataType::Int64 || count > mostSizes || !sameLength)
      return;
    std::vector<Dim> result;
    for (size_t i = 0; i < count; ++i) {
      auto value = [&](int probe) {
        const std::string &bytes = evaluations[probe].values[id]->bytes;
        return support::endian::read64le(bytes.data() + i * sizeof(int64_t));
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
};

} // namespace

namespace {
/// With each candidate for the batch from the most plausible one on; the error is that of the
/// first.
Expected<Graph> importByCandidates(StringRef path, const ImportOptions &options) {
  Error refusal = Error::success();
  for (std::optional<size_t> next = 0; next;) {
    auto file = ModelFile::read(path, options.identity);
    if (!file) {
      consumeError(std::move(refusal));
      return file.takeError();
    }
    Import import(*file, options, *next);
    auto graph = import.run();
    if (graph) {
      consumeError(std::move(refusal));
      return graph;
    }
    next = import.nextCandidate();
    if (refusal)
      consumeError(graph.takeError());
    else
      refusal = graph.takeError();
  }
  return refusal;
}
} // namespace

Expected<Graph> importGraph(StringRef path, const ImportOptions &options) {
  auto graph = importByCandidates(path, options);
  if (graph || !options.lookOnly || options.noBatch)
    return graph;
  Error refusal = graph.takeError();
  ImportOptions whole = options;
  whole.noBatch = true;
  auto again = importByCandidates(path, whole);
  if (!again) {
    consumeError(again.takeError());
    return refusal;
  }
  std::string why;
  handleAllErrors(
      std::move(refusal), [&](const DiagnosticError &error) { why = error.message; },
      [&](const ErrorInfoBase &error) { why = error.message(); });
  again->notes.push_back("it cannot be planned: " + why);
  return again;
}

} // namespace heterplan

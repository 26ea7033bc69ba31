#include "ir/onnx/batch/SampleRules.h"

#include "ir/NodeAttributes.h"
#include "ir/onnx/batch/Mixing.h"
#include "ir/onnx/batch/SampleMovement.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace llvm;

namespace heterplan {

namespace {

constexpr SampleResult unknown = {SampleEffect::Unknown, 0,
                                  "is not known to compute each sample by itself"};
constexpr SampleResult apart = {SampleEffect::Unknown, 0,
                                "has operands whose samples lie on different axes"};
constexpr SampleResult combines = {SampleEffect::Mixes, 0,
                                   "combines elements along the axis that counts samples"};

/// The runs that all operands have whose rows differ; 0 where they have different ones.
int64_t commonRuns(const SampleNode &n) {
  int64_t runs = -1;
  for (size_t i = 0; i < n.count(); ++i)
    if (n.grows(i) && n.in(i).content != SampleLayout::Equal)
      runs = runs == -1 || runs == n.in(i).runs ? n.in(i).runs : 0;
  return runs == -1 ? 1 : runs;
}

SampleResult each(const SampleNode &n) { return {SampleEffect::Each, commonRuns(n), ""}; }

/// Operands broadcast from the right, and each element is made of those at its place.
SampleResult elementwise(const SampleNode &n) {
  for (size_t i = 0; i < n.count(); ++i)
    if (n.grows(i) && static_cast<int>(n.result().size()) - n.rank(i) + n.in(i).axis != n.axis())
      return apart;
  SampleResult result = each(n);
  return result.runs ? result : apart;
}

/// The first operand alone has samples, on an axis that stays what it is.
SampleResult keeps(const SampleNode &n) {
  for (size_t i = 1; i < n.count(); ++i)
    if (n.grows(i))
      return unknown;
  return n.in(0).axis == n.axis() && n.perSample(0) == n.perSample() ? each(n) : unknown;
}

/// Each element along the axis stays; other axes may come, go or be reduced.
SampleResult reduces(const SampleNode &n) {
  for (size_t i = 1; i < n.count(); ++i)
    if (n.grows(i))
      return unknown;
  return n.perSample(0) == n.perSample() ? each(n) : unknown;
}

/// Samples lie on the first axis of whatever has them.
SampleResult leading(const SampleNode &n) {
  for (size_t i = 0; i < n.count(); ++i)
    if (n.grows(i) && n.in(i).axis != 0)
      return combines;
  return n.axis() == 0 && n.grows(0) ? each(n) : unknown;
}

/// Data with leading samples and weights that are the same for all samples.
SampleResult leadingData(const SampleNode &n) {
  for (size_t i = 1; i < n.count(); ++i)
    if (n.grows(i))
      return unknown;
  return leading(n);
}

SampleResult batchNormalization(const SampleNode &n) {
  if (combinesAlong(n.graph, n.node, n.in(0).axis))
    return {SampleEffect::Mixes, commonRuns(n), combines.why};
  return n.in(0).axis == 1 ? unknown : keeps(n);
}

/// Along an axis that an attribute or an operand names; see Mixing.h.
SampleResult along(const SampleNode &n) {
  for (size_t i = 0; i < n.count(); ++i) {
    if (!n.grows(i))
      continue;
    if (n.rank(i) != n.rank(0) && n.node.op != "ReverseSequence")
      return unknown;
    if (n.rank(i) == n.rank(0) && n.in(i).axis != n.axis())
      return apart;
  }
  if (combinesAlong(n.graph, n.node, n.axis()))
    return {SampleEffect::Mixes, commonRuns(n), combines.why};
  return each(n);
}

/// Data without samples have one row, which all of them read.
SampleResult gathersAlong(const SampleNode &n) {
  if (!n.grows(0) && (n.axis() >= n.rank(0) || n.shape(0)[n.axis()] != Dim{0, 1}))
    return unknown;
  return along(n);
}

/// Rows that indices or what is written lack stay as they are: row 0 alone is changed.
SampleResult scattersAlong(const SampleNode &n) {
  for (size_t i = 1; i < n.count(); ++i)
    if (n.grows(0) && (!n.grows(i) || n.perSample(i) != n.perSample(0)))
      return unknown;
  return along(n);
}

/// The last two axes are those of matrices.
SampleResult matrices(const SampleNode &n) {
  return n.in(0).axis < n.rank(0) - 2 ? reduces(n) : combines;
}

/// Axis of the samples of operand `i` of a product in its result, counted from the end; -1 if they
/// are summed over.
int fromEndOfProduct(const SampleNode &n, size_t i, size_t other, bool second) {
  int fromEnd = n.rank(i) - 1 - n.in(i).axis;
  int summed = second && n.rank(i) > 1 ? 1 : 0;
  if (fromEnd == summed)
    return -1;
  if (fromEnd < 2) // a row of the first, a column of the second
    return second || n.rank(other) == 1 ? 0 : 1;
  return fromEnd - (n.rank(other) == 1 ? 1 : 0);
}

SampleResult product(const SampleNode &n, size_t first, size_t second) {
  for (auto [i, other] : {std::pair(first, second), std::pair(second, first)}) {
    if (!n.grows(i))
      continue;
    int fromEnd = fromEndOfProduct(n, i, other, i == second);
    if (fromEnd < 0)
      return combines;
    if (static_cast<int>(n.result().size()) - 1 - fromEnd != n.axis())
      return apart;
  }
  SampleResult result = each(n);
  return result.runs ? result : apart;
}

SampleResult matMul(const SampleNode &n) { return product(n, 0, 1); }
SampleResult qLinearMatMul(const SampleNode &n) { return product(n, 0, 3); }

SampleResult gemm(const SampleNode &n) {
  bool rows = n.grows(0), columns = n.grows(1);
  if ((rows && n.in(0).axis != integerAttribute(n.node, "transA", 0)) ||
      (columns && n.in(1).axis != 1 - integerAttribute(n.node, "transB", 0)))
    return combines;
  if (n.axis() != (columns ? 1 : 0) || (rows && columns) ||
      (n.grows(2) && 2 - n.rank(2) + n.in(2).axis != n.axis()))
    return apart;
  return each(n);
}

/// X is [time, batch, size], or [batch, time, size] with layout 1; states [directions, batch,
/// size].
SampleResult recurrent(const SampleNode &n) {
  bool batchFirst = integerAttribute(n.node, "layout", 0) == 1;
  if (!n.grows(0) || n.in(0).axis != (batchFirst ? 0 : 1))
    return combines;
  for (size_t i : {size_t(1), size_t(2), size_t(3), size_t(7)})
    if (n.grows(i))
      return unknown;
  for (size_t i : {size_t(5), size_t(6)})
    if (n.grows(i) && n.in(i).axis != (batchFirst ? 0 : 1))
      return apart;
  return n.axis() == (batchFirst ? 0 : n.output ? 1 : 2) ? each(n) : unknown;
}

/// The letters of a term, one for each of `rank` axes; an ellipsis stands for those counted from
/// its end. Empty where there are other numbers of them.
std::string letters(StringRef term, size_t rank) {
  std::string result;
  size_t dots = term.find("...");
  size_t named = term.size() - term.count(' ') - (dots == StringRef::npos ? 0 : 3);
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      for (size_t k = rank > named ? rank - named : 0; k > 0; --k)
        result += static_cast<char>(k);
      i += 2;
    } else if (term[i] != ' ') {
      result += term[i];
    }
  }
  return result.size() == rank ? result : "";
}

SampleResult einsum(const SampleNode &n) {
  const auto *equation = findAttribute<std::string>(n.node, "equation");
  if (!equation || !StringRef(*equation).contains("->"))
    return unknown;
  auto [left, right] = StringRef(*equation).split("->");
  SmallVector<StringRef, 4> terms;
  left.split(terms, ',');
  std::string made = letters(right, n.result().size());
  if (terms.size() != n.count() || made.empty())
    return unknown;
  for (size_t i = 0; i < n.count(); ++i) {
    if (!n.grows(i))
      continue;
    std::string own = letters(terms[i], n.shape(i).size());
    if (own.empty())
      return unknown;
    if (own[n.in(i).axis] != made[n.axis()])
      return made.find(own[n.in(i).axis]) == std::string::npos ? combines : apart;
  }
  return each(n);
}

SampleResult sequence(const SampleNode &n) {
  for (size_t i = 0; i < n.count(); ++i)
    if (n.grows(i) && n.in(i).axis != n.axis())
      return apart;
  return each(n);
}

using Rule = SampleResult (*)(const SampleNode &);

Rule findRule(const GraphNode &node) {
  static const StringMap<Rule> rules = {
#define HETERPLAN_SAMPLE_RULE(rule, op) {op, rule},
#include "ir/onnx/batch/SampleRules.def"
  };
  auto found = rules.find(node.domain.empty() ? node.op : node.domain + "." + node.op);
  return found == rules.end() ? nullptr : found->second;
}

} // namespace

SampleResult applySampleRule(const SampleNode &node) {
  for (size_t i = 0; i < node.count(); ++i)
    if (node.in(i).kind == SampleLayout::Torn)
      return {SampleEffect::Unknown, 0, "reads samples that lie in no order that is known"};
  bool grows = node.layouts[node.node.outputs[node.output]].kind == SampleLayout::Split;
  Rule rule = grows ? findRule(node.node) : nullptr;
  if (rule)
    return rule(node);
  SampleResult result = unknown; // samples are taken to lie as before
  result.ruled = !grows;
  bool mixes = node.grows(0) && combinesAlong(node.graph, node.node, node.in(0).axis);
  result.effect = mixes ? SampleEffect::Mixes : SampleEffect::Unknown;
  result.runs = commonRuns(node);
  for (size_t i = 0; i < node.count() && grows; ++i)
    if (node.grows(i) && node.perSample(i) != node.perSample())
      result.runs = 0;
  return result;
}

bool walksAlongSamples(const GraphNode &node, ArrayRef<SampleLayout> layouts) {
  if (node.iterations && node.iterations->count.perSample)
    return true;
  if (node.op != "Scan")
    return false;
  auto scanned = static_cast<size_t>(integerAttribute(node, "num_scan_inputs", 0));
  ArrayRef<TensorId> operands = node.operands();
  const auto *axes = findAttribute<std::vector<int64_t>>(node, "scan_input_axes");
  for (size_t i = 0; i < scanned && scanned <= operands.size(); ++i) {
    TensorId id = operands[operands.size() - scanned + i];
    if (id != noTensor && layouts[id].axis == (axes && i < axes->size() ? (*axes)[i] : 0))
      return true;
  }
  return false;
}

} // namespace heterplan

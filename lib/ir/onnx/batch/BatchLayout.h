// How the samples of a batch lie in each tensor, followed through every operator. Three things
// depend on it: a stage is replicated by giving each replica a contiguous range of samples, so a
// tensor may cross a cut only where samples are contiguous along one axis ([128, N, 768] is, but
// reshaped to [128·N, 768] it is not); operators that mix samples are told; and a model that was
// written for one batch may be computed at another only if each operator treats samples alike.
#pragma once

#include "ir/Graph.h"

#include <algorithm>
#include <string>
#include <vector>

namespace heterplan {

/// Along `axis`, of k·N elements: index = (run·N + sample)·(k / runs) + rest with run in [0, runs).
struct SampleLayout {
  enum Kind {
    Shared, // no axis grows with the batch
    Split,  // one does, and has no fixed part
    Torn    // several do, or one that has rows of no sample as well
  };
  /// Contents of the rows, from the least known to the best known.
  enum Content { Data, Numbers, Equal };

  Kind kind = Shared;
  int axis = -1;
  int64_t runs = 1; // 0 where samples are in no such order
  Content content = Data;
  /// Integers that number rows: those of sample i are i·step plus a part that depends on sample i
  /// alone, and is below `step` if it is the number of a row. 0: they are not.
  int64_t step = 0;
  /// Indices that several coordinates make: the step of each along the last axis, -1 where the
  /// number of the sample has another effect. Empty: `step` for all of them.
  std::vector<int64_t> columns;

  /// Whether the values depend on the number of the sample.
  bool isNumbered() const {
    return kind != Shared &&
           (content == Numbers || step ||
            std::any_of(columns.begin(), columns.end(), [](int64_t each) { return each != 0; }));
  }
  /// Whether coordinate `number` of `count` numbers rows by `rows` a sample, and no other one
  /// depends on the number of the sample.
  bool indexes(size_t number, size_t count, int64_t rows) const;
};

/// An operation of a node that is not a function of one sample at a time.
struct SampleFinding {
  int node = 0;       // index into Graph::nodes; what is in its bodies counts for it
  std::string inside; // the name of the node in a body
  bool mixes = false; // it does; otherwise it is not known not to
  bool ruled = true;  // otherwise nothing is known of the operator
  std::string why;    // "combines ..."
};

struct SampleAnalysis {
  std::vector<SampleLayout> layouts;   // by tensor
  std::vector<SampleFinding> findings; // in the order of the nodes
};
/// Analyses the samples of a graph whose shapes are set.
SampleAnalysis analyseSamples(const Graph &graph);

/// By tensor: whether it is independent of the batch, or has one axis of `k·N` elements in which
/// those of a sample are k neighbours.
std::vector<bool> splitsBySample(const SampleAnalysis &analysis);

/// Nodes whose operands grow with the batch while no result does, or that combine along the batch
/// axis: they reduce over the samples, sort them or pick one, so that each replica of a stage
/// computes them on its part alone.
std::vector<int> mixingNodes(const SampleAnalysis &analysis);

} // namespace heterplan

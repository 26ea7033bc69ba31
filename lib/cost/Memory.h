// Memory of one device of a stage.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace heterplan {

/// Copies of the parameters that training keeps: parameters + gradients + optimizer state.
/// SGD 2, momentum 3, Adam 4.
int parameterCopies(Optimizer optimizer);

/// The largest of `replicas` equal slices of the trained `parameters`: whole numbers of 4 bytes.
Bytes sliceOf(Bytes parameters, int replicas);

/// Gradients that are divided are summed over the replicas when as much of them is there.
constexpr Bytes gradientBuffer(1 << 20);

/// Memory of dense parameters, their gradients and the state of the optimizer on each of `replicas`
/// that divide them as `sharding` says, but for parameters: gradients and state by slices (ZeRO
/// stages 1 and 2, Rajbhandari et al., SC 2020), with two buffers of gradients at a time, each of
/// at most `largestLayer` and gradientBuffer bytes. Without sharding the transient memory of a
/// layer counts: its new gradient, or twice as much in a step of Adam.
Bytes trainedMemory(Bytes parameters, Bytes largestLayer, Optimizer optimizer,
                    const StageSharding &sharding, int replicas);

/// Memory of the same if the replicas divide the parameters, too (ZeRO stage 3), without gathered
/// parameters. All memory of the `sliced` parameters is slices. The `shared` parameters, which
/// other stages use, are whole, and so are their gradients, which exist twice before the update.
Bytes slicedMemory(Bytes sliced, Bytes shared, Optimizer optimizer, int replicas);

/// Gradients that a backward pass holds beside the slices when it sums those of the layer with most
/// parameters, `largestLayer` bytes: all of that layer, and the slice of their sum.
Bytes scatteredLayer(Bytes largestLayer, int replicas);

/// The copies that autocast rounds of `parameters`: half of them in bf16, whose parameters,
/// gradients and state stay in fp32. Each forward pass makes its own, which are kept until its
/// backward pass, or, where activations are computed again, until the pass ends.
Bytes roundedWeights(Bytes parameters, Precision precision);

/// Rows of the largest part of `table` when `devices` share it as evenly as rows go.
int64_t mostRows(const SparseTable &table, int devices);

/// Rows of each device when device i shall have `parts[i]` of `rows`: whole numbers with that sum,
/// each at most one above or below its part. `parts` are not negative and add up to 1.
std::vector<int64_t> divideRows(int64_t rows, llvm::ArrayRef<double> parts);
/// The most that a device exchanges of the rows that each device looks up, over what each exchanges
/// where the rows lie evenly, (k−1)/k of its own: a device that holds a part f of the rows receives
/// 1 − f of those that it looks up, and sends f of those of the k−1 others. At least 1.
double exchangeSkew(llvm::ArrayRef<int64_t> rows);

/// Need of a device that holds `rows` of `table`: they and the optimizer's state, and gradients of
/// the rows that samples of one global batch look up, all of which may lie there.
Bytes tableMemory(const SparseTable &table, int64_t rows, Optimizer optimizer, Samples globalBatch);

/// Memory that layers [begin, end) need in the backward pass beyond their activations, per sample.
/// The workspace of a layer exists after the activations of the layers behind it are freed.
Bytes workspaceBeyond(const LayerGraph &graph, int begin, int end);

/// Need, sparse tables not counted, of a device that holds layers [begin, end) of `graph` and
/// processes `share` samples of each of `inFlight` micro-batches at a time:
///   copies·dense parameters + buffers + inFlight·(share·(activations + received boundary) + fixed
///   part of the boundary) + share·workspaceBeyond
/// `boundary` is what crosses the cut at `begin`. It is a
/// lower bound of what plans count (StageMemory), as it leaves out what is sent or comes and goes.
Bytes deviceMemory(const LayerGraph &graph, int begin, int end, const Cut &boundary,
                   Optimizer optimizer, Samples share, int inFlight);

} // namespace heterplan

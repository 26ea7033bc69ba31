// How the samples of a global batch are divided into micro-batches. The rule is stated here once;
// the runtime has its own copy (program.py), and docs/formats.md says it in words.
#pragma once

#include "support/Units.h"

namespace heterplan {

/// B samples in m micro-batches, 1 ≤ m ≤ B, as evenly as they go and the larger ones first:
/// micro-batch i has ⌊(B + m − 1 − i) / m⌋ samples. Micro-batches of ⌈B/m⌉ samples are full, the
/// others have one sample less; plans and simulations charge each the time of a full one. The
/// samples of a replica are divided by the same rule. At most one replica has a share that is no
/// multiple of m, so that the replicas of a stage together have each micro-batch.
struct MicroBatches {
  Samples batch{1}; // B
  int count = 1;    // m

  bool isValid() const { return count >= 1 && batch >= Samples(count); }
  /// Samples in micro-batch `index` of a `share` of the global batch.
  int64_t partOf(Samples share, int index) const {
    return (share.value() + count - 1 - index) / count;
  }
  /// Samples in a full micro-batch of a `share` of the global batch: ⌈share/m⌉.
  int64_t fullPartOf(Samples share) const { return partOf(share, 0); }
  bool isMultiple(Samples share) const { return share.value() % count == 0; }

  /// Samples of micro-batch `index`.
  int64_t sizeOf(int index) const { return partOf(batch, index); }
  /// Samples of a full micro-batch.
  int64_t fullSize() const { return sizeOf(0); }
  bool isFull(int index) const { return sizeOf(index) == fullSize(); }
  /// Micro-batches that are not full; as many samples are missing.
  int64_t missing() const { return fullSize() * count - batch.value(); }
};

} // namespace heterplan

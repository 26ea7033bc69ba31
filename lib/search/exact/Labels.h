// The labels of the exact search and what is dominated among them: of two labels at one cut,
// reached over the same link, one is dropped when the other does as well in every completion. See
// docs/rationale/search.md.
#pragma once

#include "search/network/Transfers.h"
#include "search/placement/NodePacking.h"
#include "search/placement/StageTable.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace heterplan {

/// A placement of the last layers: stages from some cut position to the end.
struct Label {
  double fill;       // Σ τ of its stages; the receipt of the first one's input is not known yet
  double others;     // max τ of all its stages but the first; overlapped transfers count alone
  double first;      // τ of the first, without that receipt; without overlapped transfers
  double exposed;    // R of the first stage
  double price;      // of its devices
  double traffic;    // in the objective: what zones charge for its boundaries
  double bound;      // on the objective of any completion
  int parent;        // index of the label without the first stage, -1 at the root
  int position, end; // its first stage covers positions [position, end)
  int option, depth; // group of the first stage; number of stages
  int choice;        // index of the micro-batch count
  int packing;       // of its stages, see Packings
  /// The chain of the node of its first stage if it is in one: the devices that this and the
  /// neighbouring stages behind it have there (NodeChains); and the packing without them.
  int chain, packingBehindChain;
  bool dominated;
  ExecutionMode mode; // of the first stage
  bool otherShares;   // its figures are the least that any shares of unequal devices may give
  Samples share;      // largest of the first stage
};

/// The slots of the first types in one word, so that they are compared at once.
class PackedSlots {
public:
  PackedSlots() = default;
  explicit PackedSlots(llvm::ArrayRef<int> slots) {
    for (size_t type = 0; type < std::min(slots.size(), fields); ++type)
      word |= uint64_t(std::min(slots[type], most)) << (type * bits);
  }
  /// False if some type has more slots than in `other`. True: none has, as far as the word says.
  bool mayBeWithin(PackedSlots other) const {
    return (((other.word | guards) - word) & guards) == guards;
  }

private:
  static constexpr size_t fields = 4, bits = 16;
  static constexpr int most = (1 << (bits - 1)) - 1;
  static constexpr uint64_t guards = 0x8000'8000'8000'8000;
  uint64_t word = 0;
};

class LabelStore {
public:
  LabelStore(const Evaluator &evaluator, PathTable &paths, Packings &packings);

  /// `table`: the stages of a number of micro-batches, before labels of it come; it outlives them.
  void setChoice(int choice, const StageTable &table) { tables[choice] = &table; }

  size_t size() const { return labels.size(); }
  const Label &operator[](int index) const { return labels[index]; }
  /// Sets the bound of label `index`, which labels that grow from it take over.
  void raiseBound(int index, double bound) { labels[index].bound = bound; }
  /// Slots that label `index` takes, by type.
  llvm::ArrayRef<int> slotsOf(int index) const {
    return llvm::ArrayRef<int>(used).slice(size_t(index) * types, types);
  }
  /// Adds a label as it is; its index.
  int add(const Label &label, llvm::ArrayRef<int> slots);
  /// Adds a label unless one that stands there dominates it; labels that it dominates are marked.
  /// Placements whose slowest stage takes less than `slowest` are of no interest.
  bool insert(const Label &label, llvm::ArrayRef<int> slots, double slowest);
  /// Forgets the labels that were added; Pareto sets stay.
  void clear();
  /// Entries of Pareto sets that were compared so far.
  int64_t comparisons() const { return compared; }

private:
  /// The data of dominance, kept together for the cache.
  struct Entry {
    PackedSlots slots; // of the first types; first, as it tells most entries apart
    double fill, fillAndExposed, price, traffic, others, first;
    int64_t share, nodeShare; // samples of one device and of one node of the first stage
    double mostReceive;       // of the first stage's input, whatever stands before it
    int depth;                // beyond the number of micro-batches it does not matter
    int label;

    /// False: it does not dominate `other`.
    bool mayDominate(const Entry &other) const {
      return slots.mayBeWithin(other.slots) && fillAndExposed <= other.fillAndExposed &&
             fill <= other.fill && price <= other.price && traffic <= other.traffic &&
             depth <= other.depth;
    }
  };

  /// How much longer transfers between the first stage and the one before it may take, in seconds.
  struct Handover {
    double receive = 0, gradient = 0;
  };

  /// How a group looks to the stage before it: groups of one place are reached over the same link.
  struct Interface {
    int place, perNode;
  };

  Entry entryOf(const Label &label, llvm::ArrayRef<int> slots, double slowest);
  int placeFor(const Label &label, const Entry &entry) const;
  Handover handoverTo(int other, const Label &label);
  Handover handover(const Label &label, const Label *other);
  bool chainHolds(const Label &a, const int *aUsed, const Label &b, const int *bUsed);
  bool dominates(const Entry &a, const Label &aLabel, const int *aUsed, const Entry &b,
                 const Label &bLabel, const int *bUsed);

  const Evaluator &evaluator;
  PathTable &paths;
  Packings &packings;
  const SearchSpace &space;
  const size_t types;
  const bool priceMatters;
  std::vector<Interface> interfaces;      // by option
  std::vector<const StageTable *> tables; // by choice
  std::vector<Label> labels;
  std::vector<int> used; // slots by label and type
  /// Non-dominated labels by cut and micro-batches, and by place; ascending fill.
  llvm::DenseMap<std::pair<int, int>, std::vector<Entry>> paretoSets;
  /// By cut and micro-batches, and by both options (or none).
  llvm::DenseMap<std::pair<int, int>, Handover> handovers;
  int64_t compared = 0;
};

} // namespace heterplan

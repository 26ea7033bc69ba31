// The cluster as a scheduler of jobs sees it: nodes with cores, host memory and GPUs. Within a slot
// only amounts count, not which core or GPU it is.
#pragma once

#include "ir/Cluster.h"
#include "search/jobs/Job.h"

#include "llvm/ADT/StringRef.h"

#include <array>
#include <string>
#include <vector>

namespace heterplan::jobs {

/// The place of the workers and servers of one row of a schedule: a node and, of its GPUs, one
/// type.
struct Site {
  int node = 0;
  int gpuType = -1;                      // index into Cluster::types; -1: the node has no GPUs
  std::array<int, resources> resource{}; // indices into Machines::capacity
  int kind = 0;                          // sites of one kind have equal devices, links and zones
  int cpuClass = 0;                      // nodes of one class have the same CPU types
};

struct Machine {
  std::string name;
  int group = 0;             // of Cluster::nodes
  int zone = -1;             // of Cluster::zones; -1: there are none
  BytesPerSecond link{};     // between its devices
  std::vector<int> cpuTypes; // of Cluster::types
  int firstSite = 0, sites = 1;
};

class Machines {
public:
  /// All nodes of `cluster`, whose links and memories are resolved. `cluster` must outlive it.
  explicit Machines(const Cluster &cluster);

  const Cluster &cluster() const { return *source; }
  const std::vector<Machine> &nodes() const { return machines; }
  const std::vector<Site> &sites() const { return places; }
  /// By resource of a node: thousandths of cores, bytes, GPUs of one type; all whole.
  const std::vector<double> &capacity() const { return amounts; }
  /// Sums of capacity() over the cluster.
  std::array<double, resources> totals() const;
  /// Whose the entries of capacity() are.
  int nodeOf(int resource) const { return owners[resource]; }
  Resource resourceOf(int resource) const { return resourceKinds[resource]; }
  /// Bandwidth of a job whose rows of a slot are on several nodes: that of `zone`, or between zones
  /// if -1.
  BytesPerSecond network(int zone) const;
  /// Index of the node called `name`, or -1.
  int find(llvm::StringRef name) const;
  /// The device type that a row on `site` names: the type of its GPUs on a node that has several
  /// types, else "".
  std::string typeName(int site) const;
  /// How many kinds of sites there are, and one site of each.
  int kinds() const { return static_cast<int>(examples.size()); }
  int exampleOf(int kind) const { return examples[kind]; }
  /// How many classes of CPU types there are; see Site::cpuClass.
  int classes() const { return static_cast<int>(cpuClasses.size()); }
  /// Nodes that are down have nothing.
  void takeDown(int node);

private:
  void addNode(const NodeGroup &group, int groupIndex, int index);
  int addAmount(int node, Resource kind, double amount);

  const Cluster *source;
  std::vector<Machine> machines;
  std::vector<Site> places;
  std::vector<double> amounts;
  std::vector<int> owners;
  std::vector<Resource> resourceKinds;
  std::vector<int> examples;
  std::vector<std::vector<int>> cpuClasses;
};

} // namespace heterplan::jobs

#include "search/jobs/read/QueueFields.h"

#include "search/jobs/read/JobFields.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr auto required = Presence::Required;
constexpr auto optional = Presence::Optional;
constexpr int64_t mostGpus = 1'000'000;
constexpr double mostWeight = 1e6;

/// {gpu: 8, a100: 4, cpu: 64, memory: 512GiB}: GPUs, also by device type, cores and host memory.
Error readAmounts(const YamlNode &node, const std::string &what, Amounts &amounts) {
  if (node.kind != YamlNode::Kind::Mapping)
    return Diagnostic(Diag::WrongType, node.location)
           << what << " must be a mapping of resources ({gpu: 8, memory: 512GiB})";
  if (node.entries.empty())
    return Diagnostic(Diag::MissingField, node.location)
           << what << " has no resource; gpu, cpu, memory and GPU types are accepted";
  for (const YamlEntry &entry : node.entries) {
    std::string of = entry.key + " of " + what;
    if (entry.key == "cpu") {
      double cores = 0;
      if (Error error = readCores(entry.value, of, cores))
        return error;
      amounts.all[Cpu] = std::round(cores * partsOfCore);
      continue;
    }
    if (entry.key == "memory") {
      Bytes bytes;
      if (Error error = readBytes(entry.value, of, bytes))
        return error;
      amounts.all[Memory] = std::floor(bytes.value());
      continue;
    }
    int64_t count = 0;
    if (Error error = readCount(entry.value, of, 0, mostGpus, count))
      return error;
    if (entry.key == "gpu")
      amounts.all[Gpu] = double(count);
    else
      amounts.gpus[entry.key] = double(count);
  }
  return Error::success();
}

/// Whether `queue` has a quota for each resource that it may borrow.
bool lacksQuota(const Queue &queue) {
  if (queue.share)
    return false;
  for (int r = 0; r < resources; ++r)
    if (queue.borrow.all[r] && !queue.quota.all[r])
      return true;
  return any_of(queue.borrow.gpus,
                [&](const auto &entry) { return !queue.quota.gpus.count(entry.first); });
}

Error checkQueue(const YamlNode &node, const Queue &queue, const std::string &owner) {
  auto has = [&](StringRef key) {
    return any_of(node.entries, [&](const YamlEntry &entry) { return entry.key == key; });
  };
  if (has("quota") == has("share"))
    return Diagnostic(has("quota") ? Diag::UnknownField : Diag::MissingField, node.location)
               .note({}, "quota: amounts ({gpu: 8}); share: a part of the cluster (0.25)")
           << owner << (has("quota") ? " has a quota and a share" : " has neither quota nor share")
           << "; give one of them";
  if (has("borrow") && queue.cohort.empty())
    return Diagnostic(Diag::MissingField, node.location)
               .note({}, "state the 'cohort' of the queues that lend to each other")
           << owner << " may borrow and has no cohort";
  if (lacksQuota(queue))
    return Diagnostic(Diag::MissingField, node.location)
           << owner << " may borrow a resource for which it has no quota";
  return Error::success();
}

Error readShare(const YamlNode &node, const std::string &owner, Queue &queue) {
  if (Error error = readNumber(node, "share of " + owner, 1, queue.share.emplace()))
    return error;
  if (*queue.share > 0)
    return Error::success();
  return Diagnostic(Diag::OutOfRange, node.location)
         << "share of " << owner << " is 0; a part of the cluster up to 1 is accepted";
}

Error readWeight(const YamlNode &node, const std::string &owner, Queue &queue) {
  if (Error error = readNumber(node, "weight of " + owner, mostWeight, queue.weight))
    return error;
  if (queue.weight > 0)
    return Error::success();
  return Diagnostic(Diag::OutOfRange, node.location)
         << "weight of " << owner << " is 0; a positive number is accepted";
}

Error readQueue(const YamlNode &node, Queue &queue) {
  queue.location = node.location;
  if (node.kind == YamlNode::Kind::Mapping) // the name first: messages use it
    for (const YamlEntry &entry : node.entries)
      if (entry.key == "name")
        if (Error error = readText(entry.value, "name of a queue", queue.name))
          return error;
  std::string owner = "queue '" + queue.name + "'";
  if (Error error =
          readMapping(node, owner,
                      {{"name", required, [](const YamlNode &) { return Error::success(); }},
                       {"quota", optional,
                        [&](const YamlNode &value) {
                          return readAmounts(value, "quota of " + owner, queue.quota);
                        }},
                       {"share", optional,
                        [&](const YamlNode &value) { return readShare(value, owner, queue); }},
                       {"cohort", optional,
                        [&](const YamlNode &value) {
                          return readText(value, "cohort of " + owner, queue.cohort);
                        }},
                       {"borrow", optional,
                        [&](const YamlNode &value) {
                          return readAmounts(value, "borrow of " + owner, queue.borrow);
                        }},
                       {"weight", optional,
                        [&](const YamlNode &value) { return readWeight(value, owner, queue); }}}))
    return error;
  return checkQueue(node, queue, owner);
}
} // namespace

Error readQueues(const YamlNode &node, std::vector<Queue> &queues) {
  constexpr size_t mostQueues = 10'000;
  if (node.kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, node.location) << "queues must be a list (- {...})";
  if (node.items.size() > mostQueues)
    return Diagnostic(Diag::TooLarge, node.location)
           << "there are " << node.items.size() << " queues; at most " << mostQueues
           << " are accepted";
  for (const YamlNode &item : node.items)
    if (Error error = readQueue(item, queues.emplace_back()))
      return error;
  return Error::success();
}

} // namespace heterplan::jobs

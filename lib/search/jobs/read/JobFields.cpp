#include "search/jobs/read/JobFields.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr auto required = Presence::Required;
constexpr auto optional = Presence::Optional;
constexpr int latestArrival = 1'000'000'000, mostPriority = 1'000'000, mostGpus = 1'000'000;
constexpr int64_t mostSamples = 1'000'000'000'000'000, mostBatch = int64_t(1) << 30;
constexpr double largestUtility = 1e12, longestDelay = 1e9, steepestDecay = 1e6,
                 mostWorkersPerServer = 1e9, leastWorkersPerServer = 1e-3;

/// Like readBytes, but 0 with any unit is a size too.
Error readBytesOrNone(const YamlNode &node, StringRef what, Bytes &result) {
  StringRef digits = StringRef(node.text).trim().take_while([](char c) { return c == '0'; });
  StringRef unit = StringRef(node.text).trim().drop_front(digits.size()).ltrim();
  if (node.kind == YamlNode::Kind::Scalar && !digits.empty() && unit.endswith("B") &&
      unit.size() <= 3) {
    result = Bytes(0);
    return Error::success();
  }
  if (Error error = readBytes(node, what, result))
    return error;
  result = Bytes(std::ceil(result.value()));
  return Error::success();
}

/// A number of at least `least`.
Error readAtLeast(const YamlNode &node, StringRef what, double least, double most, double &result) {
  if (Error error = readNumber(node, what, most, result))
    return error;
  if (result >= least)
    return Error::success();
  return Diagnostic(Diag::OutOfRange, node.location)
         << what << " is " << result << "; " << least << " to " << most << " are accepted";
}

/// Numbers of GPUs, [1, 2, 4].
Error readCounts(const YamlNode &node, const std::string &owner, std::vector<int> &counts) {
  constexpr size_t mostChoices = 8;
  for (const YamlNode &item : node.items) {
    int count = 0;
    if (Error error = readInteger(item, "gpu of " + owner, 1, mostGpus, count))
      return error;
    if (is_contained(counts, count))
      return Diagnostic(Diag::DuplicateName, item.location)
             << "gpu of " << owner << " has " << count << " twice";
    counts.push_back(count);
  }
  if (!counts.empty() && counts.size() <= mostChoices)
    return Error::success();
  return Diagnostic(Diag::OutOfRange, node.location)
         << "gpu of " << owner << " has " << counts.size() << " numbers of GPUs; 1 to "
         << mostChoices << " are accepted";
}

/// The worker of a job. With a list of numbers of GPUs, cores and memory are those of each GPU.
Error readWorker(const YamlNode &node, const std::string &owner, Job &job) {
  std::vector<int> counts;
  YamlNode first = node; // with one of the numbers of GPUs
  for (YamlEntry &entry : first.entries)
    if (entry.key == "gpu" && entry.value.kind == YamlNode::Kind::Sequence) {
      if (Error error = readCounts(entry.value, owner, counts))
        return error;
      entry.value.kind = YamlNode::Kind::Scalar;
      entry.value.items.clear();
      entry.value.text = "1";
    }
  Demand &demand = job.worker;
  if (Error error = readDemand(first, owner, demand))
    return error;
  for (int count : counts)
    job.choices.push_back(
        {{demand[Cpu] * count, demand[Memory] * count, double(count)}, {}, std::nullopt});
  job.choose(0);
  if (demand[Cpu] > 0 || demand[Gpu] > 0)
    return Error::success();
  return Diagnostic(Diag::OutOfRange, node.location)
         << owner << " demands neither gpu nor cpu; it needs one of them";
}

Error readUtilityKind(const YamlNode &node, const std::string &owner, Utility &utility) {
  std::string text;
  if (Error error = readText(node, "kind of " + owner, text))
    return error;
  for (Utility::Kind kind : {Utility::Kind::Sigmoid, Utility::Kind::Linear, Utility::Kind::Deadline,
                             Utility::Kind::Constant})
    if (text == nameOf(kind)) {
      utility.kind = kind;
      return Error::success();
    }
  return Diagnostic(Diag::WrongType, node.location)
         << "kind of " << owner << " is '" << text
         << "'; sigmoid, linear, deadline and constant are accepted";
}

/// Which of the optional keys a kind needs; others are refused.
Error checkUtilityKeys(const YamlNode &node, const std::string &owner, Utility::Kind kind) {
  using Kind = Utility::Kind;
  auto has = [&](StringRef key) {
    return any_of(node.entries, [&](const YamlEntry &entry) { return entry.key == key; });
  };
  for (auto [key, needed] :
       {std::pair("decay", kind == Kind::Sigmoid), std::pair("target", kind == Kind::Sigmoid),
        std::pair("deadline", kind == Kind::Linear || kind == Kind::Deadline)}) {
    if (needed && !has(key))
      return Diagnostic(Diag::MissingField, node.location)
             << owner << " is of kind " << nameOf(kind) << " and lacks '" << key << "'";
    if (!needed && has(key))
      return Diagnostic(Diag::UnknownField, node.location)
             << owner << " is of kind " << nameOf(kind) << ", which has no '" << key << "'";
  }
  return Error::success();
}

Error readUtility(const YamlNode &node, const std::string &owner, Utility &utility) {
  auto number = [&](const char *key, double most, double &result) -> YamlField {
    return {key, optional, [=, &result](const YamlNode &value) {
              return readNumber(value, std::string(key) + " of " + owner, most, result);
            }};
  };
  YamlField value = number("value", largestUtility, utility.value);
  value.presence = required;
  if (Error error = readMapping(
          node, owner,
          {{"kind", required,
            [&](const YamlNode &value) { return readUtilityKind(value, owner, utility); }},
           value,
           number("decay", steepestDecay, utility.decay),
           number("target", longestDelay, utility.target),
           number("deadline", longestDelay, utility.deadline)}))
    return error;
  if (utility.kind == Utility::Kind::Linear && utility.deadline <= 0)
    for (const YamlEntry &entry : node.entries)
      if (entry.key == "deadline")
        return Diagnostic(Diag::OutOfRange, entry.value.location)
               << "deadline of " << owner << " is 0; a linear utility needs more";
  return checkUtilityKeys(node, owner, utility.kind);
}

Error readSampleTime(const YamlNode &node, const std::string &owner, Job &job) {
  if (node.kind != YamlNode::Kind::Mapping)
    return readDuration(node, "sample_time of " + owner, job.sampleTime);
  for (const YamlEntry &entry : node.entries)
    if (Error error =
            readDuration(entry.value, "sample_time of " + owner, job.sampleTimes[entry.key]))
      return error;
  if (node.entries.empty())
    return Diagnostic(Diag::MissingField, node.location)
           << "sample_time of " << owner << " has no device type";
  return Error::success();
}

Error readFlag(const YamlNode &node, const std::string &what, bool &result) {
  if (node.kind != YamlNode::Kind::Scalar || (node.text != "true" && node.text != "false"))
    return Diagnostic(Diag::WrongType, node.location) << what << " must be true or false";
  result = node.text == "true";
  return Error::success();
}

/// {seconds: 30}, or a duration (30s).
Error readRestart(const YamlNode &node, const std::string &owner, Job &job) {
  if (node.kind != YamlNode::Kind::Mapping)
    return readDuration(node, "restart of " + owner, job.restart);
  double seconds = 0;
  if (Error error = readMapping(node, "restart of " + owner,
                                {{"seconds", required, [&](const YamlNode &value) {
                                    return readNumber(value, "seconds of restart of " + owner,
                                                      longestDelay, seconds);
                                  }}}))
    return error;
  job.restart = Seconds(seconds);
  return Error::success();
}

/// {slots: 10, class: hard}
Error readDeadline(const YamlNode &node, const std::string &owner, Job &job) {
  std::string kind = "soft";
  JobDeadline deadline;
  if (Error error = readMapping(node, "deadline of " + owner,
                                {{"slots", required,
                                  [&](const YamlNode &value) {
                                    return readInteger(value, "slots of the deadline of " + owner,
                                                       0, latestArrival, deadline.slots);
                                  }},
                                 {"class", optional, [&](const YamlNode &value) -> Error {
                                    if (Error error = readText(
                                            value, "class of the deadline of " + owner, kind))
                                      return error;
                                    if (kind == "hard" || kind == "soft")
                                      return Error::success();
                                    return Diagnostic(Diag::WrongType, value.location)
                                           << "class of the deadline of " << owner << " is '"
                                           << kind << "'; hard and soft are accepted";
                                  }}}))
    return error;
  deadline.isHard = kind == "hard";
  job.deadline = deadline;
  return Error::success();
}

Error readNames(const YamlNode &node, const std::string &what, std::vector<std::string> &names) {
  if (node.kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be a list of jobs ([a, b])";
  for (const YamlNode &item : node.items)
    if (Error error = readText(item, "a job of " + what, names.emplace_back()))
      return error;
  return Error::success();
}

/// Either a model, or time and gradient.
Error checkSource(const YamlNode &node, const Job &job, const std::string &owner) {
  auto has = [&](StringRef key) {
    return any_of(node.entries, [&](const YamlEntry &entry) { return entry.key == key; });
  };
  bool hasModel = has("model");
  if (!hasModel && !job.choices.empty())
    return Diagnostic(Diag::NotSupported, node.location)
               .note({}, "give one number of GPUs, or name a 'model', from whose plans the time of "
                         "each number comes")
           << "the worker of " << owner << " has several numbers of GPUs and no model";
  for (const char *key : {"sample_time", "gradient"}) {
    if (!hasModel && !has(key))
      return Diagnostic(Diag::MissingField, node.location)
                 .note({}, "or name a 'model', from which both come")
             << owner << " lacks '" << key << "'";
    if (hasModel && has(key))
      return Diagnostic(Diag::UnknownField, job.modelLocation)
             << owner << " has a model and a '" << key << "'; give one of them";
  }
  return Error::success();
}
} // namespace

Error readDemand(const YamlNode &node, const std::string &owner, Demand &demand) {
  int gpus = 0;
  double cores = 0;
  Bytes memory;
  Error error = readMapping(
      node, owner,
      {{"gpu", optional,
        [&](const YamlNode &value) {
          return readInteger(value, "gpu of " + owner, 0, mostGpus, gpus);
        }},
       {"cpu", optional,
        [&](const YamlNode &value) { return readCores(value, "cpu of " + owner, cores); }},
       {"memory", optional, [&](const YamlNode &value) {
          return readBytesOrNone(value, "memory of " + owner, memory);
        }}});
  demand = {std::round(cores * partsOfCore), memory.value(), double(gpus)};
  return error;
}

Error readCount(const YamlNode &node, StringRef what, int64_t least, int64_t most,
                int64_t &result) {
  int64_t number = 0;
  if (node.kind != YamlNode::Kind::Scalar || node.text.size() > 18 ||
      StringRef(node.text).getAsInteger(10, number))
    return Diagnostic(Diag::WrongType, node.location) << what << " must be a whole number";
  if (number < least || number > most)
    return Diagnostic(Diag::OutOfRange, node.location)
           << what << " is " << number << "; " << least << " to " << most << " are accepted";
  result = number;
  return Error::success();
}

Error readJob(const YamlNode &node, Job &job) {
  job.location = node.location;
  if (node.kind == YamlNode::Kind::Mapping) // the name first: messages use it
    for (const YamlEntry &entry : node.entries)
      if (entry.key == "name")
        if (Error error = readText(entry.value, "name of a job", job.name))
          return error;
  std::string owner = "job '" + job.name + "'";
  auto count = [&](const char *key, int64_t most, int64_t &result) -> YamlField {
    return {key, required, [=, &result](const YamlNode &value) {
              return readCount(value, std::string(key) + " of " + owner, 1, most, result);
            }};
  };
  Error error = readMapping(
      node, owner,
      {{"name", required, [](const YamlNode &) { return Error::success(); }},
       {"arrival", required,
        [&](const YamlNode &value) {
          return readInteger(value, "arrival of " + owner, 0, latestArrival, job.arrival);
        }},
       {"priority", optional,
        [&](const YamlNode &value) {
          return readInteger(value, "priority of " + owner, -mostPriority, mostPriority,
                             job.priority);
        }},
       count("epochs", mostSamples, job.epochs),
       count("samples", mostSamples, job.samples),
       count("batch", mostBatch, job.batch),
       {"model", optional,
        [&](const YamlNode &value) {
          job.modelLocation = value.location;
          return readText(value, "model of " + owner, job.model);
        }},
       {"command", optional,
        [&](const YamlNode &value) { return readText(value, "command of " + owner, job.command); }},
       {"sample_time", optional,
        [&](const YamlNode &value) { return readSampleTime(value, owner, job); }},
       {"gradient", optional,
        [&](const YamlNode &value) {
          return readBytesOrNone(value, "gradient of " + owner, job.gradient);
        }},
       {"worker", required,
        [&](const YamlNode &value) { return readWorker(value, "worker of " + owner, job); }},
       {"server", required,
        [&](const YamlNode &value) { return readDemand(value, "server of " + owner, job.server); }},
       {"workers_per_server", required,
        [&](const YamlNode &value) {
          return readAtLeast(value, "workers_per_server of " + owner, leastWorkersPerServer,
                             mostWorkersPerServer, job.workersPerServer);
        }},
       {"min_workers", optional,
        [&](const YamlNode &value) {
          return readCount(value, "min_workers of " + owner, 1, mostBatch, job.minWorkers);
        }},
       {"same_type", optional,
        [&](const YamlNode &value) {
          return readFlag(value, "same_type of " + owner, job.sameType.emplace());
        }},
       {"max_nodes", optional,
        [&](const YamlNode &value) {
          return readInteger(value, "max_nodes of " + owner, 1, mostGpus, job.maxNodes);
        }},
       {"restart", optional, [&](const YamlNode &value) { return readRestart(value, owner, job); }},
       {"preemptible", optional,
        [&](const YamlNode &value) {
          return readFlag(value, "preemptible of " + owner, job.preemptible);
        }},
       {"deadline", optional,
        [&](const YamlNode &value) { return readDeadline(value, owner, job); }},
       {"after", optional,
        [&](const YamlNode &value) { return readNames(value, "after of " + owner, job.after); }},
       {"queue", optional,
        [&](const YamlNode &value) {
          job.queueLocation = value.location;
          return readText(value, "queue of " + owner, job.queue);
        }},
       {"utility", required, [&](const YamlNode &value) {
          return readUtility(value, "utility of " + owner, job.utility);
        }}});
  if (error)
    return error;
  return checkSource(node, job, owner);
}

} // namespace heterplan::jobs

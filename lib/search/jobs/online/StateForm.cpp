// The file form of a state: JSON, which the YAML reader reads with line and column.
#include "search/jobs/online/State.h"

#include "search/jobs/read/JobFields.h"
#include "search/jobs/read/QueueFields.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <charconv>
#include <utility>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr const char *version = "1.0";
constexpr const char *checksumKey = "  \"checksum\": \"";
constexpr const char *ending = "\"\n}\n";
constexpr int mostSlots = 1'000'000;
constexpr int64_t mostCount = int64_t(1) << 40;
constexpr auto required = Presence::Required;
constexpr auto optional = Presence::Optional;

std::string withUnit(double number, const char *unit) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return std::string(buffer, end) + unit;
}

void writeDemand(JsonWriter &json, const char *key, const Demand &demand) {
  json.attributeObject(key, [&] {
    json.attribute("gpu", int64_t(demand[Gpu]));
    json.attribute("cpu", demand[Cpu] / partsOfCore);
    json.attribute("memory", withUnit(demand[Memory], "B"));
  });
}

void writeUtility(JsonWriter &json, const Utility &utility) {
  using Kind = Utility::Kind;
  json.attributeObject("utility", [&] {
    json.attribute("kind", nameOf(utility.kind));
    json.attribute("value", utility.value);
    if (utility.kind == Kind::Sigmoid) {
      json.attribute("decay", utility.decay);
      json.attribute("target", utility.target);
    }
    if (utility.kind == Kind::Linear || utility.kind == Kind::Deadline)
      json.attribute("deadline", utility.deadline);
  });
}

/// Writes the rules that the job states.
void writeRules(JsonWriter &json, const Job &job) {
  if (job.minWorkers > 0)
    json.attribute("min_workers", job.minWorkers);
  if (job.sameType)
    json.attribute("same_type", *job.sameType);
  if (job.maxNodes > 0)
    json.attribute("max_nodes", job.maxNodes);
  if (job.restart > Seconds())
    json.attribute("restart", withUnit(job.restart.value(), "s"));
  if (!job.preemptible)
    json.attribute("preemptible", false);
  if (job.deadline)
    json.attributeObject("deadline", [&] {
      json.attribute("slots", job.deadline->slots);
      json.attribute("class", job.deadline->isHard ? "hard" : "soft");
    });
  if (!job.queue.empty())
    json.attribute("queue", job.queue);
  if (!job.after.empty())
    json.attributeArray("after", [&] {
      for (const std::string &name : job.after)
        json.value(name);
    });
}

void writeAmounts(JsonWriter &json, const char *key, const Amounts &amounts) {
  if (amounts == Amounts())
    return;
  json.attributeObject(key, [&] {
    if (amounts.all[Gpu])
      json.attribute("gpu", int64_t(*amounts.all[Gpu]));
    if (amounts.all[Cpu])
      json.attribute("cpu", *amounts.all[Cpu] / partsOfCore);
    if (amounts.all[Memory])
      json.attribute("memory", withUnit(*amounts.all[Memory], "B"));
    for (const auto &[type, count] : amounts.gpus)
      json.attribute(type, int64_t(count));
  });
}

/// As in a jobs file.
void writeQueue(JsonWriter &json, const Queue &queue) {
  json.object([&] {
    json.attribute("name", queue.name);
    writeAmounts(json, "quota", queue.quota);
    if (queue.share)
      json.attribute("share", *queue.share);
    if (!queue.cohort.empty())
      json.attribute("cohort", queue.cohort);
    writeAmounts(json, "borrow", queue.borrow);
    json.attribute("weight", queue.weight);
  });
}

void writeTimes(JsonWriter &json, const std::map<std::string, Seconds> &times) {
  json.attributeObject("sample_time", [&] {
    for (const auto &[type, time] : times)
      json.attribute(type, withUnit(time.value(), "s"));
  });
}

using Plans = std::map<std::string, WorkerPlan>;

void writePlans(JsonWriter &json, const std::optional<Plans> &plans) {
  if (!plans)
    return;
  json.attributeObject("plans", [&] {
    for (const auto &[type, plan] : *plans)
      json.attributeObject(type, [&] {
        json.attribute("schedule", plan.schedule);
        json.attribute("stages", plan.stages);
        json.attribute("iteration", withUnit(plan.iteration.value(), "s"));
      });
  });
}

/// The model of a job, which its scripts name, with the plans and choices of its workers.
void writeModel(JsonWriter &json, const Job &job) {
  if (!job.model.empty())
    json.attribute("model", job.model);
  writePlans(json, job.plans);
  if (job.choices.empty())
    return;
  json.attributeArray("choices", [&] {
    for (const WorkerChoice &choice : job.choices)
      json.object([&] {
        writeDemand(json, "worker", choice.worker);
        writeTimes(json, choice.sampleTimes);
        writePlans(json, choice.plans);
      });
  });
}

/// As in a jobs file; a model has become times.
void writeJob(JsonWriter &json, const Job &job) {
  json.attributeObject("job", [&] {
    json.attribute("name", job.name);
    json.attribute("arrival", job.arrival);
    json.attribute("priority", job.priority);
    json.attribute("epochs", job.epochs);
    json.attribute("samples", job.samples);
    json.attribute("batch", job.batch);
    if (!job.command.empty())
      json.attribute("command", job.command);
    if (job.sampleTimes.empty())
      json.attribute("sample_time", withUnit(job.sampleTime.value(), "s"));
    else
      writeTimes(json, job.sampleTimes);
    json.attribute("gradient", withUnit(job.gradient.value(), "B"));
    writeDemand(json, "worker", job.worker);
    writeDemand(json, "server", job.server);
    json.attribute("workers_per_server", job.workersPerServer);
    writeUtility(json, job.utility);
    writeRules(json, job);
  });
}

void writeSavedJob(JsonWriter &json, const SavedJob &saved) {
  json.object([&] {
    writeJob(json, saved.job);
    writeModel(json, saved.job);
    json.attribute("status", saved.status);
    json.attribute("reason", saved.reason);
    json.attributeArray("rows", [&] {
      for (const SavedRow &row : saved.rows)
        json.object([&] {
          json.attribute("slot", row.slot);
          json.attribute("node", row.node);
          if (!row.type.empty())
            json.attribute("deviceType", row.type);
          json.attribute("workers", row.workers);
          json.attribute("servers", row.servers);
        });
    });
  });
}

Error invalid(StringRef path, const char *what) {
  return Diagnostic(Diag::InvalidState, {path.str(), 0, 0, ""})
             .note({}, "restore it from a copy, or start a new one under another name")
         << what;
}

/// The text before the checksum, if that is right.
Error checkSum(StringRef text, StringRef path) {
  size_t at = text.rfind(checksumKey);
  if (at == StringRef::npos)
    return invalid(path, "is not a state of heterplan schedule, or is cut off: it has no checksum");
  if (text.drop_front(at) == checksumKey + sha256(text.take_front(at)) + ending)
    return Error::success();
  return invalid(path, "was changed by something else: its checksum is wrong");
}

Error readRow(const YamlNode &node, SavedRow &row) {
  return readMapping(
      node, "a row",
      {{"slot", required,
        [&](const YamlNode &value) {
          return readInteger(value, "slot of a row", 0, mostSlots, row.slot);
        }},
       {"node", required,
        [&](const YamlNode &value) { return readText(value, "node of a row", row.node); }},
       {"deviceType", optional,
        [&](const YamlNode &value) { return readText(value, "deviceType of a row", row.type); }},
       {"workers", required,
        [&](const YamlNode &value) {
          return readCount(value, "workers of a row", 0, mostCount, row.workers);
        }},
       {"servers", required, [&](const YamlNode &value) {
          return readCount(value, "servers of a row", 0, mostCount, row.servers);
        }}});
}

template <typename Item, typename Read>
Error readItems(const YamlNode &node, const char *what, std::vector<Item> &items, Read read) {
  if (node.kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be a list";
  for (const YamlNode &item : node.items)
    if (Error error = read(item, items.emplace_back()))
      return error;
  return Error::success();
}

Error readStatus(const YamlNode &node, std::string &status) {
  if (Error error = readText(node, "status", status))
    return error;
  for (const char *known : {"admitted", "waiting", "declined", "completed", "dropped"})
    if (status == known)
      return Error::success();
  return Diagnostic(Diag::WrongType, node.location)
         << "status is '" << status
         << "'; admitted, waiting, declined, completed and dropped are accepted";
}

/// Text that may be empty or long.
Error readAnyText(const YamlNode &node, const char *what, std::string &result) {
  if (node.kind != YamlNode::Kind::Scalar)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be text";
  result = node.text;
  return Error::success();
}

/// Calls `read` with each entry of a mapping.
template <typename Read> Error readEntries(const YamlNode &node, const char *what, Read read) {
  if (node.kind != YamlNode::Kind::Mapping)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be a mapping";
  for (const YamlEntry &entry : node.entries)
    if (Error error = read(entry.key, entry.value))
      return error;
  return Error::success();
}

Error readPlans(const YamlNode &node, std::optional<Plans> &plans) {
  plans.emplace();
  return readEntries(node, "plans", [&](const std::string &type, const YamlNode &value) {
    WorkerPlan &plan = (*plans)[type];
    return readMapping(
        value, "a plan of a worker",
        {{"schedule", required,
          [&](const YamlNode &text) { return readText(text, "schedule", plan.schedule); }},
         {"stages", required,
          [&](const YamlNode &count) {
            return readInteger(count, "stages", 1, mostSlots, plan.stages);
          }},
         {"iteration", required,
          [&](const YamlNode &time) { return readDuration(time, "iteration", plan.iteration); }}});
  });
}

Error readChoice(const YamlNode &node, WorkerChoice &choice) {
  return readMapping(
      node, "a choice of workers",
      {{"worker", required,
        [&](const YamlNode &value) { return readDemand(value, "worker", choice.worker); }},
       {"sample_time", required,
        [&](const YamlNode &value) {
          return readEntries(value, "sample_time",
                             [&](const std::string &type, const YamlNode &time) {
                               return readDuration(time, "sample_time", choice.sampleTimes[type]);
                             });
        }},
       {"plans", optional, [&](const YamlNode &value) { return readPlans(value, choice.plans); }}});
}

Error readSavedJob(const YamlNode &node, SavedJob &saved) {
  return readMapping(
      node, "a job of the state",
      {{"job", required, [&](const YamlNode &value) { return readJob(value, saved.job); }},
       {"model", optional,
        [&](const YamlNode &value) { return readText(value, "model", saved.job.model); }},
       {"plans", optional,
        [&](const YamlNode &value) { return readPlans(value, saved.job.plans); }},
       {"choices", optional,
        [&](const YamlNode &value) {
          return readItems(value, "choices", saved.job.choices, readChoice);
        }},
       {"status", required, [&](const YamlNode &value) { return readStatus(value, saved.status); }},
       {"reason", required,
        [&](const YamlNode &value) { return readAnyText(value, "reason", saved.reason); }},
       {"rows", required,
        [&](const YamlNode &value) { return readItems(value, "rows", saved.rows, readRow); }}});
}

Error readEndedJob(const YamlNode &node, EndedJob &ended) {
  return readMapping(
      node, "an ended job of the state",
      {{"name", required,
        [&](const YamlNode &value) { return readText(value, "name", ended.name); }},
       {"status", required, [&](const YamlNode &value) { return readStatus(value, ended.status); }},
       {"reason", required,
        [&](const YamlNode &value) { return readAnyText(value, "reason", ended.reason); }},
       {"end", required, [&](const YamlNode &value) {
          return readInteger(value, "end of a job", -1, mostSlots, ended.end);
        }}});
}

Error readPrices(const YamlNode &node, State &state) {
  constexpr double most = 1e300;
  auto number = [&](const char *key, double &result) -> YamlField {
    return {key, required, [=, &result](const YamlNode &value) {
              return readNumber(value, std::string(key) + " of the prices", most, result);
            }};
  };
  PriceLimits &prices = state.prices;
  state.hasPrices = true;
  if (Error error =
          readMapping(node, "prices",
                      {number("least", prices.least), number("cpu", prices.most[Cpu]),
                       number("memory", prices.most[Memory]), number("gpu", prices.most[Gpu])}))
    return error;
  for (double highest : prices.most)
    if (!(prices.least > 0) || highest < prices.least)
      return Diagnostic(Diag::OutOfRange, node.location)
             << "prices must rise from a positive least one";
  return Error::success();
}

Error readVersion(const YamlNode &node) {
  std::string text;
  if (Error error = readText(node, "version", text))
    return error;
  if (text == version)
    return Error::success();
  return Diagnostic(Diag::NewerVersion, node.location)
         << "the state is of version " << text << "; this program reads " << version;
}

Error readRoot(const YamlNode &root, State &state) {
  int64_t seed = 0;
  std::string checksum;
  Error error = readMapping(
      root, "the state",
      {{"version", required, readVersion},
       {"slot", required,
        [&](const YamlNode &node) { return readDuration(node, "slot", state.slot); }},
       {"slots", required,
        [&](const YamlNode &node) {
          return readInteger(node, "slots", 1, mostSlots, state.slots);
        }},
       {"now", required,
        [&](const YamlNode &node) { return readInteger(node, "now", 0, mostSlots, state.now); }},
       {"seed", required,
        [&](const YamlNode &node) { return readCount(node, "seed", 0, INT64_MAX, seed); }},
       {"prices", optional, [&](const YamlNode &node) { return readPrices(node, state); }},
       {"down", required,
        [&](const YamlNode &node) {
          return readItems(node, "down", state.down, [](const YamlNode &item, std::string &name) {
            return readText(item, "a node that is down", name);
          });
        }},
       {"queues", optional, [&](const YamlNode &node) { return readQueues(node, state.queues); }},
       {"jobs", required,
        [&](const YamlNode &node) { return readItems(node, "jobs", state.jobs, readSavedJob); }},
       {"ended", optional,
        [&](const YamlNode &node) { return readItems(node, "ended", state.ended, readEndedJob); }},
       {"cluster", required,
        [&](const YamlNode &node) { return readAnyText(node, "cluster", state.clusterText); }},
       {"checksum", required,
        [&](const YamlNode &node) { return readText(node, "checksum", checksum); }}});
  state.seed = uint64_t(seed);
  return error;
}

Error checkNames(const State &state) {
  StringSet<> names;
  for (const SavedJob &saved : state.jobs)
    if (!names.insert(saved.job.name).second)
      return Diagnostic(Diag::DuplicateName, saved.job.location)
             << "two jobs are called '" << saved.job.name << "'";
  for (const EndedJob &ended : state.ended)
    if (!names.insert(ended.name).second)
      return Diagnostic(Diag::DuplicateName, {}) << "two jobs are called '" << ended.name << "'";
  return Error::success();
}
} // namespace

int State::find(StringRef name) const {
  for (size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].job.name == name)
      return static_cast<int>(i);
  return -1;
}

const EndedJob *State::findEnded(StringRef name) const {
  auto found = llvm::find_if(ended, [&](const EndedJob &job) { return job.name == name; });
  return found == ended.end() ? nullptr : &*found;
}

EndedJob *State::findEnded(StringRef name) {
  return const_cast<EndedJob *>(std::as_const(*this).findEnded(name));
}

void State::forgetEnded() {
  llvm::erase_if(jobs, [&](const SavedJob &saved) {
    int end = saved.rows.empty() ? -1 : saved.rows.back().slot;
    if (end >= now || saved.status == "waiting")
      return false;
    ended.push_back({saved.job.name, saved.status, saved.reason, end});
    return true;
  });
  for (SavedJob &saved : jobs)
    llvm::erase_if(saved.job.after, [&](const std::string &name) { return findEnded(name); });
  if (ended.size() > mostEnded)
    ended.erase(ended.begin(), ended.end() - std::ptrdiff_t(mostEnded));
}

std::string toJson(const State &state) {
  std::string text;
  raw_string_ostream os(text);
  JsonWriter json(os);
  json.object([&] {
    json.attribute("version", version);
    json.attribute("slot", withUnit(state.slot.value(), "s"));
    json.attribute("slots", state.slots);
    json.attribute("now", state.now);
    json.attribute("seed", int64_t(state.seed));
    if (state.hasPrices)
      json.attributeObject("prices", [&] {
        json.attribute("least", state.prices.least);
        json.attribute("cpu", state.prices.most[Cpu]);
        json.attribute("memory", state.prices.most[Memory]);
        json.attribute("gpu", state.prices.most[Gpu]);
      });
    json.attributeArray("down", [&] {
      for (const std::string &node : state.down)
        json.value(node);
    });
    if (!state.queues.empty())
      json.attributeArray("queues", [&] {
        for (const Queue &queue : state.queues)
          writeQueue(json, queue);
      });
    json.attributeArray("jobs", [&] {
      for (const SavedJob &saved : state.jobs)
        writeSavedJob(json, saved);
    });
    json.attributeArray("ended", [&] {
      for (const EndedJob &ended : state.ended)
        json.object([&] {
          json.attribute("name", ended.name);
          json.attribute("status", ended.status);
          json.attribute("reason", ended.reason);
          json.attribute("end", ended.end);
        });
    });
    json.attribute("cluster", state.clusterText);
    json.attribute("checksum", "");
  });
  size_t at = StringRef(os.str()).rfind(checksumKey);
  text.resize(at);
  return text + checksumKey + sha256(text) + ending;
}

Expected<State> parseState(StringRef text, StringRef path) {
  if (Error error = checkSum(text, path))
    return error;
  Expected<YamlNode> root = parseYaml(text, path, largestState);
  if (!root)
    return root.takeError();
  State state;
  if (Error error = readRoot(*root, state))
    return error;
  if (Error error = checkNames(state))
    return error;
  return state;
}

} // namespace heterplan::jobs

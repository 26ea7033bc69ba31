#include "search/jobs/online/SavedJobForm.h"

#include "search/jobs/read/JobFields.h"

#include <charconv>

using namespace llvm;

namespace heterplan::jobs {

std::string withUnit(double number, const char *unit) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return std::string(buffer, end) + unit;
}

namespace {
constexpr int64_t mostCount = int64_t(1) << 40;
constexpr auto required = Presence::Required;
constexpr auto optional = Presence::Optional;

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
} // namespace

void writeRows(JsonWriter &json, const char *key, ArrayRef<SavedRow> rows) {
  json.attributeArray(key, [&] {
    for (const SavedRow &row : rows)
      json.object([&] {
        json.attribute("slot", row.slot);
        json.attribute("node", row.node);
        if (!row.type.empty())
          json.attribute("deviceType", row.type);
        json.attribute("workers", row.workers);
        json.attribute("servers", row.servers);
      });
  });
}

void writeSavedJob(JsonWriter &json, const SavedJob &saved) {
  json.object([&] {
    writeJob(json, saved.job);
    writeModel(json, saved.job);
    json.attribute("status", saved.status);
    json.attribute("reason", saved.reason);
    writeRows(json, "rows", saved.rows);
  });
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

Error readAnyText(const YamlNode &node, const char *what, std::string &result) {
  if (node.kind != YamlNode::Kind::Scalar)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be text";
  result = node.text;
  return Error::success();
}

namespace {
Error readRow(const YamlNode &node, SavedRow &row) {
  return readMapping(
      node, "a row",
      {{"slot", required,
        [&](const YamlNode &value) {
          return readInteger(value, "slot of a row", 0, mostSlotsOfState, row.slot);
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
            return readInteger(count, "stages", 1, mostSlotsOfState, plan.stages);
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
} // namespace

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

} // namespace heterplan::jobs

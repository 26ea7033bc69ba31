// The file form of a state: JSON, which the YAML reader reads with line and column.
#include "search/jobs/online/SavedJobForm.h"
#include "search/jobs/online/State.h"
#include "search/jobs/read/JobFields.h"
#include "search/jobs/read/QueueFields.h"
#include "support/Files.h"
#include "support/JsonWriter.h"

#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr const char *version = "1.0";
constexpr const char *checksumKey = "  \"checksum\": \"";
constexpr const char *ending = "\"\n}\n";
constexpr int mostSlots = mostSlotsOfState;
constexpr auto required = Presence::Required;
constexpr auto optional = Presence::Optional;

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

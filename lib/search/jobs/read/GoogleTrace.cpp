// Google's cluster traces: the task events of 2011 (CSV) and the instance events of 2019 (JSON, one
// object a line, as BigQuery exports them). Requests are shares of the largest machine.
#include "search/jobs/read/TaskUse.h"
#include "support/SeparatedLines.h"
#include "support/Yaml.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr double microseconds = 1e6;
constexpr const char *expected =
    "task events of 2011: 'time, missing info, job, task index, machine, event type, user, class, "
    "priority, cpu request, memory request, ...'; or instance events of 2019, one object a line: "
    "{\"time\": \"1\", \"type\": \"3\", \"collection_id\": \"7\", \"instance_index\": \"0\", "
    "\"priority\": \"200\", \"resource_request\": {\"cpus\": 0.1, \"memory\": 0.05}}";

enum class EventKind { Submit, Schedule, Finish, Other };

/// The kind of an event of `type`, by the numbers of its trace; 0 is a submission in both.
EventKind kindOf(int64_t type, int64_t schedule, int64_t finish) {
  return type == 0          ? EventKind::Submit
         : type == schedule ? EventKind::Schedule
         : type == finish   ? EventKind::Finish
                            : EventKind::Other;
}

struct Event {
  double time = 0; // seconds
  std::string job;
  int64_t task = 0;
  EventKind kind = EventKind::Other;
  int priority = 0;
  double cpu = 0, memory = 0; // shares
};

/// The tasks of a job as its events show them.
struct EventsOfJob {
  double submitted = -1;
  std::map<int64_t, double> started; // by task
  double longest = 0;
  int priority = 0;
  double cpu = 0, memory = 0;

  void add(const Event &event) {
    if (event.kind == EventKind::Submit && submitted < 0)
      submitted = event.time;
    if (event.kind == EventKind::Schedule)
      started.try_emplace(event.task, event.time);
    if (auto start = started.find(event.task);
        event.kind == EventKind::Finish && start != started.end())
      longest = std::max(longest, event.time - start->second);
    priority = event.priority;
    cpu = std::max(cpu, event.cpu);
    memory = std::max(memory, event.memory);
  }
};
using EventsByJob = std::map<std::string, EventsOfJob>;

Error readLines(StringRef text, StringRef path, EventsByJob &jobs) {
  SeparatedLines lines(text, path, ',', 11);
  lines.expect(expected);
  while (lines.next()) {
    Event event;
    event.job = lines.field(2).str();
    event.time = lines.real(0, "time") / microseconds;
    event.task = lines.whole(3, "task index", 0, 1 << 20);
    event.kind = kindOf(lines.whole(5, "event type", 0, 8), /*schedule=*/1, /*finish=*/4);
    event.priority = int(lines.whole(8, "priority", 0, 1000));
    event.cpu = lines.real(9, "cpu request");
    event.memory = lines.real(10, "memory request");
    jobs[event.job].add(event);
  }
  return lines.take();
}

/// Reads the objects of the trace of 2019.
class Objects {
public:
  Objects(StringRef text, StringRef path) : rest(text), path(path) {}

  Error read(EventsByJob &jobs) {
    while (!rest.empty()) {
      StringRef own;
      std::tie(own, rest) = rest.split('\n');
      ++line;
      if (own.trim().empty())
        continue;
      Expected<YamlNode> node = parseYaml(own, path, largestTrace);
      if (!node) {
        consumeError(node.takeError()); // its place is one within the line
        return refuse("the line is not JSON");
      }
      if (node->kind != YamlNode::Kind::Mapping)
        return refuse("the line is not an object");
      if (Error error = add(*node, jobs))
        return error;
    }
    return Error::success();
  }

private:
  Diagnostic refuse(const Twine &message) const {
    return Diagnostic(Diag::Syntax, {path.str(), line, 1, ""})
               .note({}, std::string("expected are ") + expected)
           << message.str();
  }

  /// The value of `key`, or null.
  static const YamlNode *find(const YamlNode &object, StringRef key) {
    auto entry =
        llvm::find_if(object.entries, [&](const YamlEntry &each) { return each.key == key; });
    return entry == object.entries.end() ? nullptr : &entry->value;
  }

  /// A whole number that is not negative, written as a number or as text.
  Error whole(const YamlNode &object, StringRef key, int64_t most, int64_t &result) const {
    const YamlNode *value = find(object, key);
    if (!value)
      return refuse("the event has no '" + key + "'");
    bool isNumber =
        value->kind == YamlNode::Kind::Scalar && !StringRef(value->text).getAsInteger(10, result);
    if (!isNumber || result < 0 || result > most)
      return refuse("'" + key + "' is not a whole number from 0 to " + Twine(most));
    return Error::success();
  }

  /// A share of the largest machine; 0 where none is requested.
  Error share(const YamlNode *request, StringRef key, double &result) const {
    const YamlNode *value = request ? find(*request, key) : nullptr;
    if (!value || value->kind == YamlNode::Kind::Null)
      return Error::success();
    bool isNumber =
        value->kind == YamlNode::Kind::Scalar && !StringRef(value->text).getAsDouble(result);
    if (!isNumber || !(result >= 0 && result <= 1e6))
      return refuse("'" + key + "' of resource_request is not a share");
    return Error::success();
  }

  Error add(const YamlNode &object, EventsByJob &jobs) const {
    int64_t time = 0, type = 0, id = 0, priority = 0;
    Event event;
    for (auto [key, most, result] : {std::tuple("time", INT64_MAX, &time),
                                     {"type", int64_t(10), &type},
                                     {"collection_id", INT64_MAX, &id},
                                     {"instance_index", int64_t(1) << 20, &event.task},
                                     {"priority", int64_t(1000), &priority}})
      if (Error error = whole(object, key, most, *result))
        return error;
    const YamlNode *request = find(object, "resource_request");
    if (Error error = share(request, "cpus", event.cpu))
      return error;
    if (Error error = share(request, "memory", event.memory))
      return error;
    event.time = double(time) / microseconds;
    event.job = std::to_string(id);
    event.priority = int(priority);
    event.kind = kindOf(type, /*schedule=*/3, /*finish=*/6);
    jobs[event.job].add(event);
    return Error::success();
  }

  StringRef rest, path;
  unsigned line = 0;
};
} // namespace

Expected<Workload> parseGoogle(StringRef text, StringRef path, const Machines &machines,
                               const TraceOptions &options) {
  EventsByJob jobs;
  bool isOf2019 = text.ltrim().startswith("{");
  if (Error error = isOf2019 ? Objects(text, path).read(jobs) : readLines(text, path, jobs))
    return error;
  double largest[resources] = {};
  for (size_t i = 0; i < machines.capacity().size(); ++i)
    largest[machines.resourceOf(int(i))] =
        std::max(largest[machines.resourceOf(int(i))], machines.capacity()[i]);
  Workload workload{options.slot, options.slots, {}};
  Draws draws(options.seed);
  for (const auto &[name, events] : jobs) {
    if (events.submitted < 0 || events.longest <= 0 || events.cpu <= 0)
      continue; // the trace does not show it from its arrival to its end
    TaskUse use{events.submitted,
                events.longest,
                int64_t(events.started.size()),
                {std::max(1.0, std::round(events.cpu * largest[Cpu])),
                 std::ceil(events.memory * largest[Memory]), 0}};
    workload.jobs.push_back(jobOf(name, use, options, draws));
    workload.jobs.back().priority = events.priority;
  }
  return workload;
}

} // namespace heterplan::jobs

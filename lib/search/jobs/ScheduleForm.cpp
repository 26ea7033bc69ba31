// schedule.json: docs/schedule.md describes the fields.
#include "search/jobs/Schedule.h"
#include "support/JsonWriter.h"

#include <cmath>
#include <set>

using namespace llvm;

namespace heterplan::jobs {

namespace {
/// Times of a sample by the device types on which the job can have workers.
std::map<std::string, double> sampleSeconds(const Problem &problem, int index) {
  const Machines &machines = problem.machines();
  const Job &job = problem.job(index);
  std::map<std::string, double> times;
  for (const Site &site : machines.sites()) {
    if (!std::isfinite(problem.sampleTime(index, site.kind).value()))
      continue;
    if (job.runsOnGpus()) {
      times[machines.cluster().types[site.gpuType].name] =
          problem.sampleTime(index, site.kind).value();
      continue;
    }
    for (int type : machines.nodes()[site.node].cpuTypes) {
      const std::string &name = machines.cluster().types[type].name;
      auto entry = job.sampleTimes.find(name);
      times[name] = (entry == job.sampleTimes.end() ? job.sampleTime : entry->second).value();
    }
  }
  return times;
}

void writeSampleSeconds(JsonWriter &json, const Problem &problem, int index) {
  std::map<std::string, double> times = sampleSeconds(problem, index);
  std::set<double> values;
  for (const auto &[type, seconds] : times)
    values.insert(seconds);
  if (problem.job(index).sampleTimes.empty() || values.size() == 1)
    return json.attribute("sampleSeconds", problem.job(index).sampleTimes.empty()
                                               ? problem.job(index).sampleTime.value()
                                               : *values.begin());
  json.attributeObject("sampleSeconds", [&] {
    for (const auto &[type, seconds] : times)
      json.attribute(type, seconds);
  });
}

/// The plans of a worker by device type.
void writePlans(JsonWriter &json, const Job &job) {
  if (!job.plans)
    return;
  json.attributeObject("plans", [&] {
    for (const auto &[type, plan] : *job.plans)
      json.attributeObject(type, [&] {
        json.attribute("schedule", plan.schedule);
        json.attribute("stages", plan.stages);
        json.attribute("iterationSeconds", plan.iteration.value());
      });
  });
}

void writeSlot(JsonWriter &json, const char *key, bool isKnown, int slot) {
  isKnown ? json.attribute(key, slot) : json.attribute(key, std::nan(""));
}

void writeJob(JsonWriter &json, const Problem &problem, const Schedule &schedule, int index) {
  const Job &job = problem.job(index);
  const JobPlan &plan = schedule[index];
  bool admitted = plan.isAdmitted();
  json.object([&] {
    json.attribute("name", job.name);
    json.attribute("admitted", admitted);
    json.attribute("arrival", job.arrival);
    writeSlot(json, "start", admitted, admitted ? plan.start() : 0);
    writeSlot(json, "completion", admitted, admitted ? plan.completion() : 0);
    json.attribute("utility", utilityOf(problem, schedule, index));
    writeSampleSeconds(json, problem, index);
    if (!job.choices.empty())
      json.attribute("workerGpus", int64_t(job.worker[Gpu]));
    writePlans(json, job);
    json.attribute("gradientBytes", job.gradient.value());
    json.attribute("minWorkers", job.minWorkers);
    json.attribute("sameType", *job.sameType);
    if (!job.queue.empty())
      json.attribute("queue", job.queue);
    json.attribute("reason", plan.reason);
  });
}

void writeRow(JsonWriter &json, const Problem &problem, int job, int slot, const Row &row) {
  const Machines &machines = problem.machines();
  json.object([&] {
    json.attribute("job", problem.job(job).name);
    json.attribute("slot", slot);
    json.attribute("node", machines.nodes()[machines.sites()[row.site].node].name);
    if (std::string type = machines.typeName(row.site); !type.empty())
      json.attribute("deviceType", type);
    json.attribute("workers", row.workers);
    json.attribute("servers", row.servers);
  });
}
} // namespace

std::string toJson(const Problem &problem, const Schedule &schedule, const RunFacts &facts) {
  std::string text;
  raw_string_ostream os(text);
  JsonWriter json(os);
  double total = totalUtility(problem, schedule);
  json.object([&] {
    json.attribute("policy", facts.policy);
    if (!facts.chosen.empty())
      json.attribute("chosen", facts.chosen);
    json.attribute("seed", int64_t(facts.seed));
    json.attribute("totalUtility", total);
    json.attribute("utilityUpperBound", facts.upperBound);
    json.attribute("optimal", facts.optimal);
    json.attribute("makespan", makespan(schedule));
    json.attribute("slotSeconds", problem.slot().value());
    json.attribute("slots", problem.slots());
    json.attributeObject("utilisation", [&] {
      std::array<double, resources> shares = utilisation(problem, schedule);
      for (int r = 0; r < resources; ++r)
        json.attribute(nameOf(Resource(r)), shares[r]);
    });
    json.attributeObject("measures", [&] {
      CompletionTimes times = completionTimes(problem, schedule);
      Fairness fair = fairness(problem, schedule);
      json.attribute("admitted", times.admitted);
      json.attribute("meanCompletion", times.mean);
      json.attribute("medianCompletion", times.median);
      json.attribute("p99Completion", times.p99);
      json.attribute("meanFairness", fair.mean);
      json.attribute("worstFairness", fair.worst);
      json.attribute("deadlineMisses", fair.deadlineMisses);
      json.attribute("cost", cost(problem, schedule).value());
    });
    json.attributeArray("jobs", [&] {
      for (int job = 0; job < problem.size(); ++job)
        writeJob(json, problem, schedule, job);
    });
    json.attributeArray("allocations", [&] {
      for (int job = 0; job < problem.size(); ++job)
        for (const auto &[slot, rows] : schedule[job].slots)
          for (const Row &row : rows)
            writeRow(json, problem, job, slot, row);
    });
  });
  return os.str();
}

} // namespace heterplan::jobs

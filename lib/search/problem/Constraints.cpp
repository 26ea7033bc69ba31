#include "search/problem/Constraints.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

std::vector<Constraint> constraintsOf(const Problem &problem) {
  const Request &request = problem.request;
  std::vector<Constraint> result;
  if (!request.ignoreMemory)
    result.push_back({ConstraintKind::Memory});
  for (size_t i = 0; i < request.pins.size(); ++i)
    result.push_back({ConstraintKind::Pin, i});
  for (size_t i = 0; i < request.colocations.size(); ++i)
    result.push_back({ConstraintKind::Colocation, i});
  for (size_t i = 0; i < request.separations.size(); ++i)
    result.push_back({ConstraintKind::Separation, i});
  if (request.schedule != ScheduleChoice::Auto)
    result.push_back({ConstraintKind::Schedule});
  if (request.microBatches > 0)
    result.push_back({ConstraintKind::MicroBatches});
  if (request.maxCostPerHour > DollarsPerHour(0))
    result.push_back({ConstraintKind::Budget});
  if (request.minThroughput > SamplesPerSecond(0))
    result.push_back({ConstraintKind::Floor});
  return result;
}

namespace {
/// Takes the elements at `indices` out of `list`.
template <typename T> void takeOut(std::vector<T> &list, const std::set<size_t> &indices) {
  for (auto index = indices.rbegin(); index != indices.rend(); ++index)
    list.erase(list.begin() + ptrdiff_t(*index));
}
} // namespace

Problem without(Problem problem, const std::vector<Constraint> &dropped) {
  Request &request = problem.request;
  std::map<ConstraintKind, std::set<size_t>> indices;
  for (Constraint constraint : dropped) {
    indices[constraint.kind].insert(constraint.index);
    switch (constraint.kind) {
    case ConstraintKind::Memory:
      request.ignoreMemory = true;
      break;
    case ConstraintKind::Pin:
    case ConstraintKind::Colocation:
    case ConstraintKind::Separation:
      break; // below
    case ConstraintKind::Schedule:
      request.schedule = ScheduleChoice::Auto;
      break;
    case ConstraintKind::MicroBatches:
      request.microBatches = 0;
      break;
    case ConstraintKind::Budget:
      request.maxCostPerHour = DollarsPerHour(0);
      break;
    case ConstraintKind::Floor:
      request.minThroughput = SamplesPerSecond(0);
      break;
    }
  }
  takeOut(request.pins, indices[ConstraintKind::Pin]);
  takeOut(request.colocations, indices[ConstraintKind::Colocation]);
  takeOut(request.separations, indices[ConstraintKind::Separation]);
  return problem;
}

std::string describe(const Problem &problem, Constraint constraint) {
  const Request &request = problem.request;
  std::string text;
  raw_string_ostream os(text);
  switch (constraint.kind) {
  case ConstraintKind::Memory:
    os << "the memory of the devices";
    break;
  case ConstraintKind::Pin:
    os << "layer '" << request.pins[constraint.index].layer << "' on "
       << request.pins[constraint.index].type;
    break;
  case ConstraintKind::Colocation:
    os << "layers '" << join(request.colocations[constraint.index], "', '") << "' in one stage";
    break;
  case ConstraintKind::Separation:
    os << "layers '" << join(request.separations[constraint.index], "', '") << "' in a stage each";
    break;
  case ConstraintKind::Schedule:
    os << (request.schedule == ScheduleChoice::Pipeline ? "a pipeline of at least two stages"
                                                        : "data parallelism, one stage");
    break;
  case ConstraintKind::MicroBatches:
    os << request.microBatches << (request.microBatches == 1 ? " micro-batch" : " micro-batches");
    break;
  case ConstraintKind::Budget:
    os << "at most " << format("%.12g", request.maxCostPerHour.value()) << " dollars/hour";
    break;
  case ConstraintKind::Floor:
    os << "throughput of at least " << format("%.12g", request.minThroughput.value())
       << " samples/s";
    break;
  }
  return text;
}

std::string nameInProof(const Problem &problem, Constraint constraint) {
  const Request &request = problem.request;
  switch (constraint.kind) {
  case ConstraintKind::Memory:
    return "memory";
  case ConstraintKind::Pin:
    return "pin " + request.pins[constraint.index].layer + "=" +
           request.pins[constraint.index].type;
  case ConstraintKind::Colocation:
    return "colocate " + join(request.colocations[constraint.index], ",");
  case ConstraintKind::Separation:
    return "separate " + join(request.separations[constraint.index], ",");
  case ConstraintKind::Schedule:
    return "schedule";
  case ConstraintKind::MicroBatches:
    return "micro-batches";
  case ConstraintKind::Budget:
    return "budget";
  case ConstraintKind::Floor:
    return "throughput-floor";
  }
  return "";
}

} // namespace heterplan

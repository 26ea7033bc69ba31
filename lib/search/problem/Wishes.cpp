#include "search/problem/Wishes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <set>

using namespace llvm;

namespace heterplan {

std::vector<Wish> wishesOf(const Problem &problem) {
  const Request &request = problem.request;
  std::vector<Wish> result;
  if (!request.ignoreMemory)
    result.push_back({WishKind::Memory});
  for (size_t i = 0; i < request.pins.size(); ++i)
    result.push_back({WishKind::Pin, i});
  for (size_t i = 0; i < request.colocations.size(); ++i)
    result.push_back({WishKind::Colocation, i});
  for (size_t i = 0; i < request.separations.size(); ++i)
    result.push_back({WishKind::Separation, i});
  if (request.schedule != ScheduleChoice::Auto)
    result.push_back({WishKind::Schedule});
  if (request.microBatches > 0)
    result.push_back({WishKind::MicroBatches});
  if (request.maxCostPerHour > DollarsPerHour(0))
    result.push_back({WishKind::Budget});
  if (request.minThroughput > SamplesPerSecond(0))
    result.push_back({WishKind::Floor});
  return result;
}

namespace {
/// Takes the elements at `indices` out of `list`.
template <typename T> void takeOut(std::vector<T> &list, const std::set<size_t> &indices) {
  for (auto index = indices.rbegin(); index != indices.rend(); ++index)
    list.erase(list.begin() + ptrdiff_t(*index));
}
} // namespace

Problem without(Problem problem, const std::vector<Wish> &dropped) {
  Request &request = problem.request;
  std::map<WishKind, std::set<size_t>> indices;
  for (Wish wish : dropped) {
    indices[wish.kind].insert(wish.index);
    switch (wish.kind) {
    case WishKind::Memory:
      request.ignoreMemory = true;
      break;
    case WishKind::Pin:
    case WishKind::Colocation:
    case WishKind::Separation:
      break; // below
    case WishKind::Schedule:
      request.schedule = ScheduleChoice::Auto;
      break;
    case WishKind::MicroBatches:
      request.microBatches = 0;
      break;
    case WishKind::Budget:
      request.maxCostPerHour = DollarsPerHour(0);
      break;
    case WishKind::Floor:
      request.minThroughput = SamplesPerSecond(0);
      break;
    }
  }
  takeOut(request.pins, indices[WishKind::Pin]);
  takeOut(request.colocations, indices[WishKind::Colocation]);
  takeOut(request.separations, indices[WishKind::Separation]);
  return problem;
}

std::string describe(const Problem &problem, Wish wish) {
  const Request &request = problem.request;
  std::string text;
  raw_string_ostream os(text);
  switch (wish.kind) {
  case WishKind::Memory:
    os << "the memory of the devices";
    break;
  case WishKind::Pin:
    os << "layer '" << request.pins[wish.index].layer << "' on " << request.pins[wish.index].type;
    break;
  case WishKind::Colocation:
    os << "layers '" << join(request.colocations[wish.index], "', '") << "' in one stage";
    break;
  case WishKind::Separation:
    os << "layers '" << join(request.separations[wish.index], "', '") << "' in a stage each";
    break;
  case WishKind::Schedule:
    os << (request.schedule == ScheduleChoice::Pipeline ? "a pipeline of at least two stages"
                                                        : "data parallelism, one stage");
    break;
  case WishKind::MicroBatches:
    os << request.microBatches << (request.microBatches == 1 ? " micro-batch" : " micro-batches");
    break;
  case WishKind::Budget:
    os << "at most " << format("%.12g", request.maxCostPerHour.value()) << " dollars/hour";
    break;
  case WishKind::Floor:
    os << "throughput of at least " << format("%.12g", request.minThroughput.value())
       << " samples/s";
    break;
  }
  return text;
}

std::string nameInProof(const Problem &problem, Wish wish) {
  const Request &request = problem.request;
  switch (wish.kind) {
  case WishKind::Memory:
    return "memory";
  case WishKind::Pin:
    return "pin " + request.pins[wish.index].layer + "=" + request.pins[wish.index].type;
  case WishKind::Colocation:
    return "colocate " + join(request.colocations[wish.index], ",");
  case WishKind::Separation:
    return "separate " + join(request.separations[wish.index], ",");
  case WishKind::Schedule:
    return "schedule";
  case WishKind::MicroBatches:
    return "micro-batches";
  case WishKind::Budget:
    return "budget";
  case WishKind::Floor:
    return "throughput-floor";
  }
  return "";
}

} // namespace heterplan

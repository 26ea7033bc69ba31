#include "search/Wishes.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

std::vector<Wish> wishesOf(const Problem &problem) {
  const Request &request = problem.request;
  std::vector<Wish> result;
  if (!request.ignoreMemory)
    result.push_back({WishKind::Memory});
  for (size_t i = 0; i < request.pins.size(); ++i)
    result.push_back({WishKind::Pin, i});
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

Problem without(Problem problem, const std::vector<Wish> &dropped) {
  Request &request = problem.request;
  std::vector<bool> pinDropped(request.pins.size());
  for (Wish wish : dropped) {
    switch (wish.kind) {
    case WishKind::Memory:
      request.ignoreMemory = true;
      break;
    case WishKind::Pin:
      pinDropped[wish.pin] = true;
      break;
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
  std::vector<Pin> kept;
  for (size_t i = 0; i < request.pins.size(); ++i)
    if (!pinDropped[i])
      kept.push_back(request.pins[i]);
  request.pins = std::move(kept);
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
    os << "layer '" << request.pins[wish.pin].layer << "' on " << request.pins[wish.pin].type;
    break;
  case WishKind::Schedule:
    os << (request.schedule == ScheduleChoice::Pipeline ? "a pipeline of at least two stages"
                                                        : "data parallelism, one stage");
    break;
  case WishKind::MicroBatches:
    os << request.microBatches << " micro-batches";
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
  switch (wish.kind) {
  case WishKind::Memory:
    return "memory";
  case WishKind::Pin:
    return "pin " + problem.request.pins[wish.pin].layer + "=" +
           problem.request.pins[wish.pin].type;
  case WishKind::Budget:
    return "budget";
  case WishKind::Floor:
    return "throughput-floor";
  case WishKind::Schedule:
  case WishKind::MicroBatches:
    break;
  }
  return "";
}

} // namespace heterplan

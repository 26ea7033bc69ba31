#include "search/jobs/Job.h"

#include <algorithm>
#include <cmath>

namespace heterplan::jobs {

const char *nameOf(Resource resource) {
  constexpr const char *names[] = {"cpu", "memory", "gpu"};
  return names[resource];
}

const char *nameOf(Utility::Kind kind) {
  constexpr const char *names[] = {"sigmoid", "linear", "deadline", "constant"};
  return names[static_cast<int>(kind)];
}

double Utility::at(double delay) const {
  switch (kind) {
  case Kind::Sigmoid:
    return value / (1 + std::exp(decay * (delay - target)));
  case Kind::Linear:
    return value * std::max(0.0, 1 - delay / deadline);
  case Kind::Deadline:
    return delay <= deadline ? value : 0;
  case Kind::Constant:
    return value;
  }
  return 0;
}

int64_t Job::serversFor(int64_t workers) const {
  auto servers = static_cast<int64_t>(std::ceil(double(workers) / workersPerServer));
  while (double(servers) * workersPerServer < double(workers)) // the quotient was rounded down
    ++servers;
  return servers;
}

int64_t Job::workersFor(int64_t servers) const {
  double most = std::min(double(batch), std::floor(double(servers) * workersPerServer));
  auto workers = static_cast<int64_t>(most);
  while (workers > 0 && serversFor(workers) > servers)
    --workers;
  return workers;
}

void Job::choose(int index) {
  if (choices.empty())
    return;
  choice = index;
  worker = choices[index].worker;
  sampleTimes = choices[index].sampleTimes;
  plans = choices[index].plans;
}

} // namespace heterplan::jobs

#include "search/jobs/online/State.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

using namespace llvm;

namespace heterplan::jobs {

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

} // namespace heterplan::jobs

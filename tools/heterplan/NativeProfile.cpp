#include "NativeProfile.h"

#include "Clock.h"
#include "Options.h"

#include "cost/kernels/Bench.h"
#include "cost/kernels/cpu/Engine.h"
#include "cost/kernels/cuda/Engine.h"
#include "support/Files.h"
#include "support/Progress.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <sched.h>

using namespace llvm;

namespace heterplan {
namespace {
struct Task {
  const JobLayer *layer;
  int64_t batch;
};

std::atomic<bool> interrupted;

void interrupt(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL); // a second one ends the program
}

Profile headOf(const ProfileJob &job, const kernels::Engine &engine) {
  kernels::Environment environment = engine.environment();
  Profile head;
  head.model = job.model.model;
  head.device = environment.device;
  head.driver = environment.driver;
  head.clocks = environment.clocks;
  head.engine = "native, " + environment.software + ", update by " + nameOf(job.optimizer);
  head.threads = int(job.threads);
  head.precision = job.precision;
  return head;
}

/// Reads the entries that the file has already; it must be of the same environment.
Error resume(StringRef path, Profile &profile) {
  if (!sys::fs::exists(path))
    return Error::success();
  Expected<Profile> earlier = readProfile(path);
  if (!earlier)
    return earlier.takeError();
  std::string was = earlier->device + ", " + earlier->driver + ", " + earlier->engine + ", " +
                    std::to_string(earlier->threads) + " threads";
  std::string now = profile.device + ", " + profile.driver + ", " + profile.engine + ", " +
                    std::to_string(profile.threads) + " threads";
  if (was != now)
    return Diagnostic(Diag::InvalidProfile, {path.str(), 0, 0, ""})
               .note({}, "give another file, or remove this one")
           << "was measured on " << was << "; here it is " << now;
  profile.entries = std::move(earlier->entries);
  profile.layers = std::move(earlier->layers);
  return Error::success();
}

/// The entry of a task, or null.
ProfileEntry *entryOf(Profile &profile, const ProfileJob &job, const Task &task) {
  for (ProfileEntry &entry : profile.entries)
    if (entry.signature == task.layer->signature && entry.shardDegree == 1 &&
        entry.deviceType == job.deviceType && entry.batch.value() == task.batch)
      return &entry;
  return nullptr;
}

void add(Profile &profile, const ProfileJob &job, const Task &task,
         const MeasurementSession &session) {
  ProfileEntry *entry = entryOf(profile, job, task);
  if (!entry) {
    entry = &profile.entries.emplace_back();
    entry->signature = task.layer->signature;
    entry->deviceType = job.deviceType;
    entry->batch = Samples(task.batch);
  }
  entry->add(session);
}

int64_t missing(Profile &profile, const ProfileJob &job, const Task &task, int64_t wanted) {
  const ProfileEntry *entry = entryOf(profile, job, task);
  return entry ? entry->missingSessions(wanted) : wanted;
}

/// The largest batch first, then the smallest and so on; for each, the layers with the largest part
/// of the modelled time first.
std::vector<Task> tasksOf(const ProfileJob &job, kernels::Engine &engine) {
  std::vector<const JobLayer *> layers;
  for (const JobLayer &layer : job.shards.front().layers)
    if (std::string why = kernels::whyNot(engine, job.graph, job.model.layers[layer.index]);
        why.empty())
      layers.push_back(&layer);
    else
      errs() << "note: layer '" << layer.name << "' stays modelled: " << why << '\n';
  std::stable_sort(layers.begin(), layers.end(), [](const JobLayer *a, const JobLayer *b) {
    return a->modelled * a->count > b->modelled * b->count;
  });
  std::vector<int64_t> batches = job.batches;
  std::rotate(batches.begin(), batches.end() - 1, batches.end());
  std::vector<Task> tasks;
  for (int64_t batch : batches)
    for (const JobLayer *layer : layers)
      tasks.push_back({layer, batch});
  return tasks;
}

Error save(const ProfileJob &job, Profile &profile) {
  profile.date = utcNow();
  std::sort(profile.entries.begin(), profile.entries.end(),
            [](const ProfileEntry &a, const ProfileEntry &b) {
              return std::tie(a.signature, a.deviceType, a.batch) <
                     std::tie(b.signature, b.deviceType, b.batch);
            });
  return writeFile(job.output, toJson(profile));
}

Error pin(const ProfileJob &job) {
  if (job.cores.empty())
    return Error::success();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int64_t core : job.cores)
    if (core < CPU_SETSIZE)
      CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set))
    return usageError("--cores") << "this process cannot run on these cores";
  return Error::success();
}

Expected<std::unique_ptr<kernels::Engine>> openEngine(const ProfileJob &job) {
  if (job.gpu)
    return kernels::cuda::openEngine(*job.gpu, job.precision);
  return kernels::cpu::openEngine(int(job.threads));
}

class Sessions {
public:
  Sessions(const ProfileJob &job, kernels::Engine &engine, Profile &profile)
      : job(job), engine(engine), profile(profile), tasks(tasksOf(job, engine)) {}

  /// In rounds over all tasks, as the speed of a machine changes from second to second.
  Error run() {
    for (int64_t round = 1; round <= job.rounds; ++round)
      for (const Task &task : tasks) {
        if (isOver())
          return Error::success();
        if (missing(profile, job, task, round))
          if (Error error = session(task))
            return error;
      }
    return Error::success();
  }

  int64_t left() const {
    int64_t sum = 0;
    for (const Task &task : tasks)
      sum += missing(profile, job, task, job.rounds);
    return sum;
  }

private:
  bool isOver() const {
    std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    return interrupted || (job.timeBudget > Seconds(0) && passed.count() >= job.timeBudget.value());
  }

  Error session(const Task &task) {
    progress.update(double(done) / double(done + left()),
                    task.layer->name + ", batch " + std::to_string(task.batch));
    Expected<MeasurementSession> session = kernels::measure(
        engine, job.graph, job.model.layers[task.layer->index], Samples(task.batch), job.optimizer,
        kernels::footprintOf(job.model, Samples(task.batch)), {});
    if (!session)
      return session.takeError();
    ++done;
    add(profile, job, task, *session);
    return save(job, profile);
  }

  const ProfileJob &job;
  kernels::Engine &engine;
  Profile &profile;
  std::vector<Task> tasks;
  Progress progress = Progress::onStandardError("profiling");
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  int64_t done = 0;
};
} // namespace

Expected<ExitStatus> runNative(const ProfileJob &job) {
  if (Error error = pin(job))
    return error;
  Expected<std::unique_ptr<kernels::Engine>> opened = openEngine(job);
  if (!opened)
    return opened.takeError();
  kernels::Engine &engine = **opened;
  Profile profile = headOf(job, engine);
  if (Error error = resume(job.output, profile))
    return error;
  std::signal(SIGINT, interrupt);
  Sessions sessions(job, engine, profile);
  if (Error error = sessions.run())
    return error;
  if (Error error = save(job, profile))
    return error;
  if (int64_t left = sessions.left())
    errs() << "note: " << (interrupted ? "interrupted" : "the time is up") << " with " << left
           << " sessions left; run again to go on\n";
  return interrupted ? exitUsage : exitDone;
}

} // namespace heterplan

// SenseTime's Helios clusters (Hu et al., SC 2021): `cluster_log.csv`, the jobs of a Slurm cluster
// with a header.
#include "search/jobs/read/TaskUse.h"
#include "search/jobs/read/TraceTime.h"
#include "support/SeparatedLines.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr const char *needed[] = {"job_id", "gpu_num", "cpu_num", "submit_time", "duration"};
enum Column { Id, Gpus, Cpus, Submitted, Duration, columns };

/// The positions of the columns in the lines of a file.
struct Columns {
  std::array<size_t, columns> at{};
  size_t fields = 0; // that a line needs

  /// Notes an error where a column is missing.
  explicit Columns(SeparatedLines &header) {
    for (size_t column = 0; column < columns; ++column) {
      size_t place = 0;
      while (place < header.size() && header.field(place).trim() != needed[column])
        ++place;
      if (place == header.size()) {
        header.refuse(0, Twine("the header has no column '") + needed[column] + "'");
        return;
      }
      at[column] = place;
      fields = std::max(fields, place + 1);
    }
  }
  size_t operator[](Column column) const { return at[column]; }
};

/// A job of several GPUs has a worker for each, with an equal part of the cores.
TaskUse readUse(SeparatedLines &lines, const Columns &columns) {
  constexpr int64_t most = 1 << 20;
  TaskUse use;
  if (std::optional<double> submitted = secondsOf(lines.field(columns[Submitted]).trim()))
    use.arrival = *submitted;
  else
    lines.refuse(columns[Submitted], "submit_time is '" + lines.field(columns[Submitted]) +
                                         "'; it must be a time such as 2020-04-01 00:08:05");
  use.seconds = lines.real(columns[Duration], "duration");
  int64_t gpus = lines.whole(columns[Gpus], "gpu_num", 0, most);
  int64_t cores = lines.whole(columns[Cpus], "cpu_num", 0, most);
  use.workers = std::max<int64_t>(1, gpus);
  use.worker = {std::round(double(cores) / double(use.workers) * partsOfCore), 0,
                gpus > 0 ? 1.0 : 0.0};
  return use;
}
} // namespace

Expected<Workload> parseHelios(StringRef text, StringRef path, const Machines &,
                               const TraceOptions &options) {
  SeparatedLines lines(text, path, ',', std::size(needed));
  lines.expect("cluster_log.csv of Helios, whose header has job_id,gpu_num,cpu_num,submit_time,"
               "duration");
  std::vector<NamedTask> tasks;
  std::optional<Columns> columns;
  while (lines.next()) {
    if (!columns) {
      columns.emplace(lines);
      continue;
    }
    if (lines.size() < columns->fields) {
      lines.refuse(0, "the line has " + Twine(lines.size()) + " fields; its header needs " +
                          Twine(columns->fields));
      break;
    }
    TaskUse use = readUse(lines, *columns);
    if (use.seconds > 0 && use.worker[Cpu] + use.worker[Gpu] > 0)
      tasks.emplace_back(lines.field((*columns)[Id]).trim().str(), use);
  }
  if (Error error = lines.take())
    return error;
  return workloadOf(std::move(tasks), options);
}

} // namespace heterplan::jobs

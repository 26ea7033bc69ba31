// The GPU traces of Alibaba (github.com/alibaba/clusterdata): the task table of 2020, the pods of
// 2023, the instances of 2025 and the jobs of 2026. A header tells them apart; the table of 2020
// has none.
#include "search/jobs/read/TaskUse.h"
#include "support/SeparatedLines.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace heterplan::jobs {

namespace {
constexpr double hundredths = 100, thousandths = 1000;

/// The columns that a form of the trace has; their factors make cores, bytes and GPUs.
struct Form {
  const char *name;
  std::vector<StringRef> header; // what a header of this form has, in any order
  StringRef id, task, instances, arrival, end, cpu, memory, gpus; // "": there is none
  double coresOfCpu, bytesOfMemory, gpusOfGpu;
  StringRef duration = "", gpuModel = "", kind = "";
};

const std::vector<Form> &forms() {
  static const std::vector<Form> all = {
      {"the task table of 2020",
       {"job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu",
        "plan_mem", "plan_gpu"},
       "job_name",
       "task_name",
       "inst_num",
       "start_time",
       "end_time",
       "plan_cpu",
       "plan_mem",
       "plan_gpu",
       1 / hundredths,
       1e9,
       1 / hundredths,
       "",
       "gpu_type"},
      {"the pods of 2023",
       {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time",
        "deletion_time"},
       "name",
       "",
       "",
       "creation_time",
       "deletion_time",
       "cpu_milli",
       "memory_mib",
       "num_gpu",
       1 / thousandths,
       1024.0 * 1024,
       1,
       "",
       "gpu_spec"},
      {"the instances of 2025",
       {"instance_sn", "cpu_request", "gpu_request", "memory_request", "creation_time",
        "deletion_time"},
       "instance_sn",
       "",
       "",
       "creation_time",
       "deletion_time",
       "cpu_request",
       "memory_request",
       "gpu_request",
       1,
       1024.0 * 1024 * 1024,
       1},
      {"the jobs of 2026",
       {"job_name", "gpu_model", "cpu_request", "gpu_request", "worker_num", "submit_time",
        "duration", "job_type"},
       "job_name",
       "",
       "worker_num",
       "submit_time",
       "",
       "cpu_request",
       "",
       "gpu_request",
       1,
       1,
       1,
       "duration",
       "gpu_model",
       "job_type"}};
  return all;
}

std::string described() {
  std::string text;
  for (const Form &form : forms())
    text +=
        (text.empty() ? "" : "; ") + std::string(form.name) + " (" + join(form.header, ",") + ")";
  return text + ", with commas. Other traces of Alibaba are not supported";
}

/// The positions of the columns of a form in the lines of a file.
class Columns {
public:
  /// The form of a header; null: the line is none.
  static const Form *formOf(const SeparatedLines &lines) {
    for (const Form &form : forms())
      if (all_of(form.header, [&](StringRef name) { return indexOf(lines, name) >= 0; }))
        return &form;
    return nullptr;
  }
  static int indexOf(const SeparatedLines &lines, StringRef name) {
    for (size_t i = 0; i < lines.size(); ++i)
      if (lines.field(i).trim() == name)
        return static_cast<int>(i);
    return -1;
  }

  /// Refuses a first line that has no numbers: a header that lacks columns of every form.
  static void refuseHeader(SeparatedLines &lines) {
    for (size_t i = 0; i < lines.size(); ++i)
      if (double number; !lines.field(i).trim().getAsDouble(number))
        return;
    size_t fewest = SIZE_MAX;
    std::string message;
    for (const Form &form : forms()) {
      std::vector<StringRef> missing(form.header);
      erase_if(missing, [&](StringRef name) { return indexOf(lines, name) >= 0; });
      if (missing.size() >= std::min(fewest, form.header.size()))
        continue;
      fewest = missing.size();
      message = "the header lacks " + join(missing, ",") + " of " + form.name;
    }
    if (!message.empty())
      lines.refuse(0, message);
  }

  /// The order of the form itself.
  explicit Columns(const Form &form) : form(&form) {
    for (size_t i = 0; i < form.header.size(); ++i)
      at[form.header[i]] = static_cast<int>(i);
    most = form.header.size();
    at[form.gpuModel] = static_cast<int>(most); // after the others, if at all
  }
  Columns(const Form &form, const SeparatedLines &header) : form(&form) {
    for (StringRef name : form.header) {
      at[name] = indexOf(header, name);
      most = std::max(most, size_t(at[name]) + 1);
    }
    at[form.gpuModel] = indexOf(header, form.gpuModel);
  }

  const Form *form;
  size_t most = 0; // fields that a line needs
  size_t operator[](StringRef name) const { return size_t(at.lookup(name)); }
  /// The GPU model that a line names; "": none.
  std::string gpuModel(const SeparatedLines &lines) const {
    int column = form->gpuModel.empty() ? -1 : at.lookup(form->gpuModel);
    return column < 0 || size_t(column) >= lines.size() ? ""
                                                        : lines.field(size_t(column)).trim().str();
  }

private:
  StringMap<int> at;
};

/// One line; nothing ran where `seconds` is not positive.
TaskUse readUse(SeparatedLines &lines, const Columns &columns) {
  const Form &form = *columns.form;
  TaskUse use;
  StringRef until = form.duration.empty() ? form.end : form.duration;
  bool lasted = !lines.isMissing(columns[form.arrival]) && !lines.isMissing(columns[until]);
  use.arrival = lines.real(columns[form.arrival], form.arrival.data());
  use.seconds = lines.real(columns[until], until.data());
  if (form.duration.empty())
    use.seconds -= use.arrival;
  if (!lasted)
    use.seconds = 0;
  use.gpuModel = columns.gpuModel(lines);
  use.priority = !form.kind.empty() && lines.field(columns[form.kind]).trim() == "HP";
  if (!form.instances.empty())
    use.workers = lines.whole(columns[form.instances], form.instances.data(), 1, 1 << 20);
  use.worker = {
      std::round(lines.real(columns[form.cpu], form.cpu.data()) * form.coresOfCpu * partsOfCore),
      form.memory.empty()
          ? 0
          : std::ceil(lines.real(columns[form.memory], form.memory.data()) * form.bytesOfMemory),
      std::ceil(lines.real(columns[form.gpus], form.gpus.data()) * form.gpusOfGpu)};
  return use;
}
} // namespace

Expected<Workload> parseAlibaba(StringRef text, StringRef path, const Machines &,
                                const TraceOptions &options) {
  std::vector<NamedTask> tasks;
  SeparatedLines lines(text, path, ',', 1);
  lines.expect(described());
  Columns columns(forms().front());
  bool isFirst = true;
  while (lines.next()) {
    const Form *header = isFirst ? Columns::formOf(lines) : nullptr;
    if (header)
      columns = Columns(*header, lines);
    else if (isFirst)
      Columns::refuseHeader(lines);
    isFirst = false;
    if (header)
      continue;
    if (lines.size() < columns.most) {
      lines.refuse(0, "the line has " + Twine(lines.size()) + " fields; " + columns.form->name +
                          " has at least " + Twine(columns.most));
      break;
    }
    TaskUse use = readUse(lines, columns);
    bool isUnknown =
        use.worker[Gpu] > 0 && !options.speeds.empty() && !speedsOf(options.speeds, use.gpuModel);
    if (isUnknown)
      lines.refuse(0, "the matrix of speeds has no row for the GPU model '" + use.gpuModel +
                          "', nor '*'");
    std::string name = lines.field(columns[columns.form->id]).str();
    if (!columns.form->task.empty())
      name += "/" + lines.field(columns[columns.form->task]).str();
    if (use.seconds > 0 && use.worker[Cpu] + use.worker[Gpu] > 0)
      tasks.emplace_back(std::move(name), use);
  }
  if (Error error = lines.take())
    return error;
  return workloadOf(std::move(tasks), options);
}

} // namespace heterplan::jobs

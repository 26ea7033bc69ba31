#include "ir/FileForms.h"
#include "ir/JsonForm.h"
#include "ir/TraceMarks.h"

#include "heterplan.pb.h"

#include "support/Files.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double microsecond = 1e-6;
void writeEvent(const TimelineEvent &event, bool measured, v1::TraceEvent &form) {
  form.set_name(nameOf(event.op));
  form.set_cat(measured ? "measured" : "predicted");
  form.set_ph("X");
  form.set_ts(event.begin.value() / microsecond);
  form.set_dur((event.end - event.begin).value() / microsecond);
  form.set_pid(event.stage);
  form.set_tid(event.rank);
  v1::TraceArguments &arguments = *form.mutable_args();
  arguments.set_index(event.index);
  if (event.microBatch >= 0)
    arguments.set_micro_batch(event.microBatch);
  arguments.set_begin_seconds(event.begin.value());
  arguments.set_end_seconds(event.end.value());
}

/// Viewers show `name` for the process (stage) or the thread (rank).
void writeName(const char *what, int stage, int rank, const std::string &name, v1::Trace &form) {
  v1::TraceEvent &event = *form.add_trace_events();
  event.set_name(what);
  event.set_ph("M");
  event.set_pid(stage);
  event.set_tid(rank);
  event.mutable_args()->set_name(name);
}

void writeNames(const Timeline &timeline, v1::Trace &form) {
  std::map<int, std::set<int>> ranks; // of each stage
  for (const TimelineEvent &event : timeline.events)
    ranks[event.stage].insert(event.rank);
  for (const auto &[stage, ranksOfStage] : ranks) {
    writeName("process_name", stage, *ranksOfStage.begin(), "stage " + std::to_string(stage), form);
    for (int rank : ranksOfStage)
      writeName("thread_name", stage, rank, "rank " + std::to_string(rank), form);
  }
}

v1::TraceEvent &addMark(const char *phase, const TracePoint &at, v1::Trace &form) {
  v1::TraceEvent &event = *form.add_trace_events();
  event.set_cat("predicted");
  event.set_ph(phase);
  event.set_ts(at.time.value() / microsecond);
  event.set_pid(at.stage);
  event.set_tid(at.rank);
  event.mutable_args();
  return event;
}

/// An arrow for each message, a graph for each part of a rank.
void writeMarks(const Timeline &timeline, const Program &program, v1::Trace &form) {
  int id = 0;
  for (const TraceFlow &flow : flowsOf(program, timeline)) {
    const char *name = flow.op == Op::Receive ? "activations" : "gradients";
    for (auto [phase, point] : {std::pair("s", &flow.from), std::pair("f", &flow.to)}) {
      v1::TraceEvent &event = addMark(phase, *point, form);
      event.set_name(name);
      event.set_id(id);
      event.set_bp("e");
    }
    ++id;
  }
  for (const HeldActivations &held : heldActivations(program, timeline)) {
    v1::TraceEvent &event = addMark("C", held.at, form);
    event.set_name("activations held by rank " + std::to_string(held.at.rank));
    event.mutable_args()->set_samples(double(held.samples));
  }
}

bool isInstruction(StringRef phase) {
  return !is_contained(ArrayRef<StringRef>({"M", "C", "s", "f"}), phase);
}

TimelineEvent readEvent(const v1::TraceEvent &form, const Twine &place, NameReader &names) {
  const v1::TraceArguments &arguments = form.args();
  TimelineEvent event;
  event.op =
      names.named<Op>(form.name(), static_cast<int>(instructionInfos().size()), place + ".name");
  event.stage = form.pid();
  event.rank = form.tid();
  event.index = arguments.index();
  event.microBatch = arguments.has_micro_batch() ? arguments.micro_batch() : -1;
  event.begin =
      Seconds(arguments.has_begin_seconds() ? arguments.begin_seconds() : form.ts() * microsecond);
  event.end = Seconds(arguments.has_end_seconds() ? arguments.end_seconds()
                                                  : (form.ts() + form.dur()) * microsecond);
  return event;
}
} // namespace

std::string toJson(const Timeline &timeline, const Program *program) {
  v1::Trace form;
  for (const TimelineEvent &event : timeline.events)
    writeEvent(event, timeline.measured, *form.add_trace_events());
  writeNames(timeline, form);
  if (program)
    writeMarks(timeline, *program, form);
  form.set_display_time_unit("ms");
  v1::TraceMetadata &metadata = *form.mutable_other_data();
  metadata.set_schema_version(schemaVersion);
  metadata.set_model(timeline.model);
  metadata.set_measured(timeline.measured);
  metadata.set_iteration_seconds(timeline.iteration.value());
  return printMessage(form);
}

Expected<Timeline> parseTimeline(StringRef text, StringRef path) {
  JsonSource source{text, path};
  v1::Trace form;
  if (Error error =
          parseMessage(source, form, "otherData.schemaVersion", /*versionOptional=*/false))
    return error;
  Timeline timeline;
  NameReader names(source);
  timeline.model = form.other_data().model();
  timeline.measured = form.other_data().measured();
  timeline.iteration = Seconds(form.other_data().iteration_seconds());
  for (int i = 0; i < form.trace_events_size(); ++i)
    if (isInstruction(form.trace_events(i).ph()))
      timeline.events.push_back(
          readEvent(form.trace_events(i), "traceEvents[" + Twine(i) + "]", names));
  if (Error error = names.take())
    return error;
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const TimelineEvent &a, const TimelineEvent &b) {
                     return std::tie(a.rank, a.begin) < std::tie(b.rank, b.begin);
                   });
  if (Error error = timeline.verify())
    return source.located(std::move(error));
  return timeline;
}

Expected<Timeline> readTimeline(StringRef path) {
  auto text = readFile(path, largestJson);
  return text ? parseTimeline(*text, path) : text.takeError();
}

} // namespace heterplan

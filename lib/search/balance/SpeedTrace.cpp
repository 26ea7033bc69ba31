#include "search/balance/SpeedTrace.h"

#include "support/Files.h"
#include "support/SeparatedLines.h"
#include "support/Statistics.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace heterplan {

namespace {
constexpr uint64_t largestFile = uint64_t(64) << 20;
constexpr size_t mostWorkers = 4096;
constexpr double shortest = 1e-6, longest = 1e6; // seconds; speeds may differ as much as these

/// The quantity in a column.
struct Column {
  size_t worker = 0;
  double WorkerState::*member = nullptr;
};

class TraceReader {
public:
  TraceReader(StringRef text, StringRef path) : lines(text, path, ',', 2), path(path) {}

  Expected<SpeedTrace> read() {
    if (lines.next())
      readHeader();
    while (lines.next())
      readRow();
    if (Error error = lines.take())
      return error;
    if (trace.iterations.empty())
      return Diagnostic(Diag::MissingField, {path.str(), 1, 1, ""})
             << "there are no speeds; the first line is 'speed,WORKER,...' or "
                "'seconds,WORKER,...', "
                "and each that follows an iteration";
    if (areSeconds)
      turnIntoSpeeds();
    return std::move(trace);
  }

private:
  void readHeader() {
    StringRef unit = lines.field(0).trim();
    areSeconds = unit == "seconds";
    if (!areSeconds && unit != "speed")
      return lines.refuse(0, "the first column is called '" + unit.take_front(100) +
                                 "'; 'speed' or 'seconds' is accepted");
    StringMap<size_t> places;
    for (size_t i = 1; i < lines.size(); ++i) {
      StringRef name = lines.field(i).trim();
      double WorkerState::*member = &WorkerState::speed;
      if (name.consume_back(".cpu"))
        member = &WorkerState::cpu;
      else if (name.consume_back(".memory"))
        member = &WorkerState::memory;
      addColumn(i, name, member, places);
    }
  }

  void addColumn(size_t index, StringRef name, double WorkerState::*member,
                 StringMap<size_t> &places) {
    auto known = places.find(name);
    if (member == &WorkerState::speed) {
      if (name.empty() || known != places.end() || places.size() == mostWorkers)
        return lines.refuse(index, "worker '" + name.take_front(100) +
                                       "' has no name, one that another has, or is one of more "
                                       "than " +
                                       Twine(mostWorkers));
      known = places.try_emplace(name, places.size()).first;
      trace.workers.push_back(name.str());
    } else if (known == places.end()) {
      return lines.refuse(index, "there is no column '" + name.take_front(100) + "' before it");
    }
    columns.push_back({known->second, member});
  }

  void readRow() {
    if (lines.size() != columns.size() + 1)
      return lines.refuse(0, "the line has " + Twine(lines.size()) +
                                 " fields; the first line has " + Twine(columns.size() + 1));
    lines.whole(0, "iteration", 0, int64_t(1) << 53);
    std::vector<WorkerState> &states = trace.iterations.emplace_back(trace.workers.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      auto [worker, member] = columns[i];
      bool isSpeed = member == &WorkerState::speed;
      double value = lines.real(i + 1, isSpeed ? "speed" : "use");
      double low = areSeconds ? shortest : shortest / longest;
      if (isSpeed ? value < low || value > 1 / low : value > 1)
        return lines.refuse(i + 1, isSpeed ? "a speed or a time is positive, and not absurd"
                                           : "a use is a share from 0 to 1");
      states[worker].*member = value;
    }
  }

  void turnIntoSpeeds() {
    std::vector<double> times;
    for (const std::vector<WorkerState> &states : trace.iterations)
      for (const WorkerState &state : states)
        times.push_back(state.speed);
    double usual = median(std::move(times));
    for (std::vector<WorkerState> &states : trace.iterations)
      for (WorkerState &state : states)
        state.speed = usual / state.speed;
  }

  SeparatedLines lines;
  StringRef path;
  bool areSeconds = false;
  std::vector<Column> columns;
  SpeedTrace trace;
};
} // namespace

Expected<SpeedTrace> parseSpeedTrace(StringRef text, StringRef path) {
  return TraceReader(text, path).read();
}

Expected<SpeedTrace> readSpeedTrace(StringRef path) {
  Expected<std::string> text = readFile(path, largestFile);
  if (!text)
    return text.takeError();
  return parseSpeedTrace(*text, path);
}

std::string toCsv(const SpeedTrace &trace) {
  std::string text;
  raw_string_ostream os(text);
  os << "speed";
  for (const std::string &worker : trace.workers)
    os << ',' << worker << ',' << worker << ".cpu," << worker << ".memory";
  for (size_t i = 0; i < trace.iterations.size(); ++i) {
    os << '\n' << i;
    for (const WorkerState &state : trace.iterations[i])
      os << format(",%.17g,%.17g,%.17g", state.speed, state.cpu, state.memory);
  }
  os << '\n';
  return text;
}

} // namespace heterplan

#include "codegen/Gantt.h"

#include "codegen/Html.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;
using heterplan::html::fixed;

namespace heterplan {
namespace {
constexpr double width = 1000, left = 70, rowHeight = 26, boxHeight = 20, axisHeight = 28;
constexpr size_t mostBoxes = 4000;

/// The class of the box of an instruction, or null for those that take no time of their own.
const char *classOf(Op op) {
  const InstructionInfo &info = infoOf(op);
  if (info.phase == Phase::Iteration)
    return "sync";
  if (info.kind == InstructionClass::Receive || info.kind == InstructionClass::Collective)
    return "transfer";
  return op == Op::Forward ? "forward" : op == Op::Backward ? "backward" : nullptr;
}

class Chart {
public:
  explicit Chart(const Timeline &timeline);
  std::string draw();

private:
  double x(Seconds time) const { return left + (width - left - 10) * (time / total); }
  void drawBox(const TimelineEvent &event, double y);
  void drawRow(int stage, const std::vector<const TimelineEvent *> &events);
  std::string axis() const;

  std::map<int, std::vector<const TimelineEvent *>> rows; // by stage, of its first rank
  Seconds total;
  std::string svg;
  size_t boxes = 0;
  double y = 4;
};

Chart::Chart(const Timeline &timeline) : total(timeline.iteration) {
  std::map<int, int> firstRank;
  for (const TimelineEvent &event : timeline.events) {
    auto [entry, inserted] = firstRank.try_emplace(event.stage, event.rank);
    entry->second = std::min(entry->second, event.rank);
    total = std::max(total, event.end);
  }
  for (const TimelineEvent &event : timeline.events)
    if (event.rank == firstRank[event.stage] && classOf(event.op) && event.end > event.begin)
      rows[event.stage].push_back(&event);
}

void Chart::drawBox(const TimelineEvent &event, double top) {
  double from = x(event.begin), wide = std::max(0.5, x(event.end) - from);
  std::string title = std::string(nameOf(event.op)) +
                      (event.microBatch < 0 ? "" : " " + std::to_string(event.microBatch)) + ": " +
                      html::readable(event.begin) + " to " + html::readable(event.end);
  svg += "<rect class=\"" + std::string(classOf(event.op)) + "\" x=\"" + fixed(from, 2) +
         "\" y=\"" + fixed(top, 0) + "\" width=\"" + fixed(wide, 2) + "\" height=\"" +
         fixed(boxHeight, 0) + "\">" + html::element("title", title) + "</rect>\n";
  bool pass = event.op == Op::Forward || event.op == Op::Backward;
  if (pass && wide > 16)
    svg += html::element("text", std::to_string(event.microBatch),
                         "class=\"number\" x=\"" + fixed(from + wide / 2, 2) + "\" y=\"" +
                             fixed(top + 14, 0) + "\"");
}

void Chart::drawRow(int stage, const std::vector<const TimelineEvent *> &events) {
  svg += html::element("text", "stage " + std::to_string(stage),
                       "x=\"0\" y=\"" + fixed(y + 14, 0) + "\"");
  for (const TimelineEvent *event : events)
    if (boxes++ < mostBoxes)
      drawBox(*event, y);
  y += rowHeight;
}

std::string Chart::axis() const {
  std::string svg;
  constexpr int ticks = 5;
  for (int tick = 0; tick <= ticks; ++tick) {
    Seconds time = total * (double(tick) / ticks);
    std::string anchor = tick == ticks ? "end" : tick ? "middle" : "start";
    svg += "<line x1=\"" + fixed(x(time), 2) + "\" x2=\"" + fixed(x(time), 2) +
           "\" y1=\"0\" y2=\"" + fixed(y + 4, 0) + "\"/>" +
           html::element("text", tick ? html::readable(time) : "0",
                         "class=\"tick\" text-anchor=\"" + anchor + "\" x=\"" + fixed(x(time), 2) +
                             "\" y=\"" + fixed(y + 18, 0) + "\"") +
           "\n";
  }
  return svg;
}

std::string Chart::draw() {
  if (rows.empty() || !(total > Seconds(0)))
    return "";
  for (const auto &[stage, events] : rows)
    drawRow(stage, events);
  std::string size = fixed(width, 0) + " " + fixed(y + axisHeight, 0);
  std::string note = boxes > mostBoxes ? "<p class=\"note\">The chart shows the first " +
                                             std::to_string(mostBoxes) + " of " +
                                             std::to_string(boxes) + " passes.</p>\n"
                                       : "";
  return "<svg viewBox=\"0 0 " + size + "\" role=\"img\" aria-label=\"timeline\">\n" + axis() +
         svg + "</svg>\n" + note;
}
} // namespace

std::string emitGantt(const Timeline &timeline) { return Chart(timeline).draw(); }

} // namespace heterplan

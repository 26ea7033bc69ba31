#include "codegen/ScheduleChart.h"

#include "codegen/Html.h"

#include <algorithm>

using namespace llvm;
using heterplan::html::fixed;

namespace heterplan {
namespace {
constexpr double width = 1000, left = 150, right = 10, axisHeight = 24;
constexpr double rowHeight = 22, boxHeight = 17, useHeight = 60, useGap = 12;
constexpr size_t mostRows = 300, mostBoxes = 6000, mostBins = 800;

/// Slots on the x axis, from 0 to the makespan.
class Chart {
public:
  explicit Chart(int slots) : slots(std::max(slots, 1)) {}

  double x(double slot) const { return left + (width - left - right) * slot / slots; }
  std::string label(const std::string &text, double y) const {
    return html::element("text", text, "x=\"0\" y=\"" + fixed(y, 0) + "\"");
  }
  /// The whole element; `bottom` is where the drawing ends.
  std::string close(const std::string &drawing, double bottom, StringRef name) const {
    std::string size = fixed(width, 0) + " " + fixed(bottom + axisHeight, 0);
    return "<svg viewBox=\"0 0 " + size + "\" role=\"img\" aria-label=\"" + name.str() + "\">\n" +
           axis(bottom) + drawing + "</svg>\n";
  }

private:
  std::string axis(double bottom) const {
    int step = 1;
    for (int factor : {2, 5, 10, 20, 50, 100, 200, 500, 1000, 10'000, 100'000, 1'000'000})
      if (slots / step > 12)
        step = factor;
    std::string svg;
    for (int slot = 0; slot <= slots; slot += step)
      svg += "<line x1=\"" + fixed(x(slot), 2) + "\" x2=\"" + fixed(x(slot), 2) +
             "\" y1=\"0\" y2=\"" + fixed(bottom, 0) + "\"/>" +
             html::element("text", std::to_string(slot),
                           "class=\"tick\" text-anchor=\"middle\" x=\"" + fixed(x(slot), 2) +
                               "\" y=\"" + fixed(bottom + 15, 0) + "\"") +
             "\n";
    return svg;
  }

  int slots;
};

/// `text` in `columns` characters of a label; UTF-8 is not cut in the middle.
std::string cut(StringRef text, size_t columns) {
  if (text.size() <= columns)
    return text.str();
  size_t end = columns - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.take_front(end).str() + "…";
}

std::string boxOf(const Chart &chart, const ScheduleFigures::Job &job,
                  const ScheduleFigures::Stretch &stretch, int64_t most, double y) {
  double from = chart.x(stretch.first), wide = chart.x(stretch.last + 1) - from;
  double opacity = 0.35 + 0.65 * double(stretch.workers) / double(std::max<int64_t>(most, 1));
  std::string title = job.name + ": slots " + std::to_string(stretch.first) + " to " +
                      std::to_string(stretch.last) + ", " + std::to_string(stretch.workers) +
                      " workers, " + std::to_string(stretch.servers) + " servers";
  std::string svg = "<rect class=\"forward\" x=\"" + fixed(from, 2) + "\" y=\"" + fixed(y, 0) +
                    "\" width=\"" + fixed(std::max(wide - 0.5, 0.5), 2) + "\" height=\"" +
                    fixed(boxHeight, 0) + "\" fill-opacity=\"" + fixed(opacity, 2) + "\">" +
                    html::element("title", title) + "</rect>\n";
  std::string count = std::to_string(stretch.workers);
  if (wide > 8 + 7 * double(count.size()))
    svg += html::element("text", count,
                         "class=\"number\" x=\"" + fixed(from + wide / 2, 2) + "\" y=\"" +
                             fixed(y + 13, 0) + "\"") +
           "\n";
  return svg;
}

/// At most mostBins means of equal parts of `shares`.
std::vector<double> binned(const std::vector<double> &shares) {
  size_t each = (shares.size() + mostBins - 1) / mostBins;
  std::vector<double> bins;
  for (size_t i = 0; i < shares.size(); i += each) {
    double sum = 0;
    size_t end = std::min(shares.size(), i + each);
    for (size_t slot = i; slot < end; ++slot)
      sum += shares[slot];
    bins.push_back(sum / double(end - i));
  }
  return bins;
}
} // namespace

std::string emitJobsChart(const ScheduleFigures &figures) {
  Chart chart(figures.makespan);
  std::string svg;
  double y = 4;
  size_t rows = 0, boxes = 0, admitted = 0;
  for (const ScheduleFigures::Job &job : figures.jobs) {
    if (job.stretches.empty())
      continue;
    ++admitted;
    if (rows == mostRows || boxes + job.stretches.size() > mostBoxes)
      continue;
    ++rows;
    boxes += job.stretches.size();
    int64_t most = 0;
    for (const ScheduleFigures::Stretch &stretch : job.stretches)
      most = std::max(most, stretch.workers);
    svg += chart.label(cut(job.name, 24), y + 13);
    svg += "<line class=\"bound\" x1=\"" + fixed(chart.x(job.arrival), 2) + "\" x2=\"" +
           fixed(chart.x(job.arrival), 2) + "\" y1=\"" + fixed(y - 1, 0) + "\" y2=\"" +
           fixed(y + boxHeight + 1, 0) + "\"/>\n";
    for (const ScheduleFigures::Stretch &stretch : job.stretches)
      svg += boxOf(chart, job, stretch, most, y);
    y += rowHeight;
  }
  if (admitted == 0)
    return "";
  std::string note = rows < admitted
                         ? "<p class=\"note\">The chart shows " + std::to_string(rows) + " of " +
                               std::to_string(admitted) + " admitted jobs.</p>\n"
                         : "";
  return chart.close(svg, y, "jobs over slots") + note;
}

std::string emitUseChart(const ScheduleFigures &figures) {
  Chart chart(figures.makespan);
  std::string svg;
  double y = 4;
  for (const ScheduleFigures::Use &use : figures.uses) {
    std::vector<double> bins = binned(use.shares);
    if (bins.empty())
      continue;
    double bottom = y + useHeight, part = double(figures.makespan) / double(bins.size());
    std::string path = "M" + fixed(chart.x(0), 2) + " " + fixed(bottom, 2);
    for (size_t i = 0; i < bins.size(); ++i)
      path += "V" + fixed(bottom - useHeight * std::clamp(bins[i], 0.0, 1.0), 2) + "H" +
              fixed(chart.x(part * double(i + 1)), 2);
    svg += chart.label(use.resource + ": " + fixed(100 * use.mean, 0) + " %", y + useHeight / 2);
    svg += "<path class=\"sync\" d=\"" + path + "V" + fixed(bottom, 2) + "Z\">" +
           html::element("title", "share of " + use.resource + " that is taken") + "</path>\n";
    svg += "<line x1=\"" + fixed(left, 0) + "\" x2=\"" + fixed(width - right, 0) + "\" y1=\"" +
           fixed(y, 0) + "\" y2=\"" + fixed(y, 0) + "\"/>\n";
    y = bottom + useGap;
  }
  return y > 4 ? chart.close(svg, y, "use of resources over slots") : "";
}

} // namespace heterplan

#include "codegen/ScheduleReport.h"

#include "codegen/Page.h"
#include "codegen/ScheduleChart.h"

#include <algorithm>

using namespace llvm;
using namespace heterplan::html;

namespace heterplan {
namespace {
constexpr size_t mostLines = 1000;

size_t admittedOf(const ScheduleFigures &figures) {
  return std::count_if(figures.jobs.begin(), figures.jobs.end(),
                       [](const auto &job) { return !job.stretches.empty(); });
}

std::string summary(const ScheduleFigures &figures) {
  std::string html = "<dl>\n";
  html += term("utility", number(figures.utility) + " of at most " + number(figures.upperBound));
  if (figures.utility > 0)
    html += term("competitive ratio",
                 figures.optimal ? "1 (this is the optimum)"
                                 : "at most " + number(figures.upperBound / figures.utility, 3));
  html += term("admitted", std::to_string(admittedOf(figures)) + " of " +
                               std::to_string(figures.jobs.size()) + " jobs");
  html +=
      term("makespan", std::to_string(figures.makespan) + " slots of " + readable(figures.slot));
  if (admittedOf(figures) > 0)
    html += term("completion (slots)", number(figures.meanCompletion) + " mean, " +
                                           number(figures.medianCompletion) + " median, " +
                                           number(figures.p99Completion) + " 99th percentile");
  for (const ScheduleFigures::Use &use : figures.uses)
    html += term("use of " + use.resource, number(100 * use.mean, 3) + " %");
  return html + "</dl>\n";
}

std::string jobLine(const ScheduleFigures::Job &job, ArrayRef<bool> numeric) {
  if (job.stretches.empty())
    return row({job.name, std::to_string(job.arrival), "", "", "", "0", "declined: " + job.reason},
               numeric);
  int64_t most = 0;
  for (const ScheduleFigures::Stretch &stretch : job.stretches)
    most = std::max(most, stretch.workers);
  return row({job.name, std::to_string(job.arrival), std::to_string(job.stretches.front().first),
              std::to_string(job.stretches.back().last), std::to_string(most), number(job.utility),
              job.reason},
             numeric);
}

std::string jobsTable(const ScheduleFigures &figures) {
  constexpr bool numeric[] = {false, true, true, true, true, true, false};
  std::string html =
      "<table>\n" +
      row({"job", "arrival", "start", "end", "most workers", "utility", "decision"}, numeric, "th");
  for (size_t i = 0; i < std::min(figures.jobs.size(), mostLines); ++i)
    html += jobLine(figures.jobs[i], numeric);
  html += "</table>\n";
  if (figures.jobs.size() > mostLines)
    html += "<p class=\"note\">The table shows the first " + std::to_string(mostLines) + " of " +
            std::to_string(figures.jobs.size()) + " jobs; schedule.json has all.</p>\n";
  return html;
}

std::string section(const char *title, const std::string &chart, const char *note) {
  return chart.empty() ? ""
                       : "<h2>" + std::string(title) + "</h2>\n" + wide(chart) +
                             "<p class=\"note\">" + note + "</p>\n";
}
} // namespace

std::string emitScheduleReport(const ScheduleFigures &figures) {
  return page(
      "Jobs on " + figures.cluster,
      "<p class=\"lead\">policy " + escape(figures.policy) + ", seed " +
          std::to_string(figures.seed) + "</p>\n" + summary(figures) +
          section(
              "Jobs over time", emitJobsChart(figures),
              "Each row is a job, from slot 0 to the makespan; a line marks its arrival. Numbers "
              "are workers. A darker bar has more of the job's largest number of workers.") +
          section("Use of resources", emitUseChart(figures),
                  "Share of each resource that jobs use, by slot. The label has the mean until the "
                  "makespan.") +
          "<h2>Jobs</h2>\n" + wide(jobsTable(figures)) +
          "<footer><p>heterplan " HETERPLAN_VERSION "</p></footer>\n");
}

} // namespace heterplan

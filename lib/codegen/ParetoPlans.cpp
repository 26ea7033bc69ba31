#include "codegen/ParetoPlans.h"

#include "codegen/Html.h"
#include "support/JsonWriter.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llvm;
using namespace heterplan::html;

namespace heterplan {

namespace {
constexpr double width = 1000, height = 360, left = 90, right = 20, top = 16, bottom = 46;
constexpr int ticks = 5;

double speedOf(const Plan &plan) { return plan.throughput.value(); }

/// Bound on what plans as fast as `plan` spend: its own, where that was the objective.
double boundOf(const ParetoPlans &front, const Plan &plan) {
  return plan.objective == front.spent ? plan.lowerBound : 0;
}

void writePoint(JsonWriter &json, const Plan &plan, size_t index) {
  json.object([&] {
    json.attribute("path", paretoPath(index));
    json.attribute("minThroughput", plan.minThroughput.value());
    json.attribute("throughput", speedOf(plan));
    json.attribute("costPerMillionSamples", plan.costPerMillionSamples.value());
    json.attribute("costPerHour", plan.costPerHour.value());
    json.attribute("iterationSeconds", plan.iteration.value());
    if (plan.deviceTime > Seconds(0))
      json.attribute("deviceSeconds", plan.deviceTime.value());
    json.attribute("objective", nameOf(plan.objective));
    json.attribute("lowerBound", plan.lowerBound);
    json.attribute("gap", plan.gap);
    json.attribute("optimal", plan.optimal);
    json.attribute("stages", plan.stages.size());
    json.attribute("devices", plan.deviceCount());
  });
}

std::string attribute(const char *name, double value) {
  return std::string(" ") + name + "=\"" + fixed(value, 1) + "\"";
}

class Chart {
public:
  explicit Chart(const ParetoPlans &front) : front(front) {
    leastSpeed = speedOf(front.plans.front());
    mostSpeed = speedOf(front.plans.back());
    leastCost = front.spentBy(front.plans.front());
    mostCost = front.spentBy(front.plans.back());
    for (const Plan &plan : front.plans)
      if (double bound = boundOf(front, plan))
        leastCost = std::min(leastCost, bound);
  }

  std::string draw() const {
    std::string size = fixed(width, 0) + " " + fixed(height, 0);
    return "<svg viewBox=\"0 0 " + size + "\" role=\"img\" aria-label=\"" + spentText() +
           " against throughput\">\n" + axes() + steps() + points() + "</svg>\n";
  }

private:
  static double share(double value, double least, double most) {
    return most > least ? (value - least) / (most - least) : 0;
  }
  double x(double speed) const {
    return left + (width - left - right) * share(speed, leastSpeed, mostSpeed);
  }
  double y(double cost) const {
    return height - bottom - (height - top - bottom) * share(cost, leastCost, mostCost);
  }

  bool isMoney() const { return front.spent == Objective::Cost; }
  std::string spentText() const {
    return isMoney() ? "dollars per million samples" : "device-seconds of an iteration";
  }
  std::string amount(double spent) const { return (isMoney() ? "$" : "") + number(spent); }

  std::string axes() const {
    std::string svg;
    for (int tick = 0; tick <= ticks; ++tick) {
      double part = double(tick) / ticks;
      double speed = leastSpeed + part * (mostSpeed - leastSpeed);
      double cost = leastCost + part * (mostCost - leastCost);
      std::string anchor = tick == ticks ? "end" : tick ? "middle" : "start";
      svg += "<line" + attribute("x1", left) + attribute("x2", width - right) +
             attribute("y1", y(cost)) + attribute("y2", y(cost)) + "/>" +
             element("text", amount(cost),
                     "class=\"tick\" text-anchor=\"end\"" + attribute("x", left - 8) +
                         attribute("y", y(cost) + 4)) +
             element("text", number(speed),
                     "class=\"tick\" text-anchor=\"" + anchor + "\"" + attribute("x", x(speed)) +
                         attribute("y", height - bottom + 18)) +
             "\n";
    }
    return svg +
           element("text", "samples/s",
                   "text-anchor=\"end\"" + attribute("x", width - right) +
                       attribute("y", height - 8)) +
           element("text", spentText(), attribute("x", left + 6) + attribute("y", top - 4)) + "\n";
  }

  /// A throughput between two plans costs what the faster one does.
  std::string steps() const {
    std::string path =
        "M" + fixed(x(leastSpeed), 1) + " " + fixed(y(front.spentBy(front.plans[0])), 1);
    for (size_t i = 1; i < front.plans.size(); ++i)
      path += "V" + fixed(y(front.spentBy(front.plans[i])), 1) + "H" +
              fixed(x(speedOf(front.plans[i])), 1);
    return "<path class=\"front\" d=\"" + path + "\"/>\n";
  }

  std::string points() const {
    std::string svg;
    for (size_t i = 0; i < front.plans.size(); ++i) {
      const Plan &plan = front.plans[i];
      if (double bound = boundOf(front, plan); bound > 0 && !plan.optimal)
        svg += "<line class=\"bound\"" + attribute("x1", x(speedOf(plan))) +
               attribute("x2", x(speedOf(plan))) + attribute("y1", y(front.spentBy(plan))) +
               attribute("y2", y(bound)) + "/>\n";
      svg += "<circle class=\"" + std::string(i == front.chosen ? "backward" : "forward") + "\"" +
             attribute("cx", x(speedOf(plan))) + attribute("cy", y(front.spentBy(plan))) + " r=\"" +
             (i == front.chosen ? "7" : "5") + "\">" +
             element("title", paretoPath(i) + ": " + number(speedOf(plan)) + " samples/s, " +
                                  amount(front.spentBy(plan)) + " " + spentText()) +
             "</circle>\n";
    }
    return svg;
  }

  const ParetoPlans &front;
  double leastSpeed, mostSpeed, leastCost, mostCost;
};

std::string cell(const std::string &text, const char *tag = "td") {
  return element(tag, text, "class=\"n\"");
}
} // namespace

std::string paretoPath(size_t index) {
  return std::string("pareto/") + (index < 10 ? "0" : "") + std::to_string(index) + "/plan.json";
}

std::string emitParetoFront(const ParetoPlans &front) {
  std::string text;
  raw_string_ostream os(text);
  JsonWriter json(os);
  json.object([&] {
    json.attribute("schemaVersion", "1.0");
    json.attribute("model", front.plans.front().model);
    json.attribute("cluster", front.plans.front().cluster);
    json.attribute("chosen", front.chosen);
    json.attributeArray("points", [&] {
      for (size_t i = 0; i < front.plans.size(); ++i)
        writePoint(json, front.plans[i], i);
    });
  });
  return text;
}

std::string emitParetoChart(const ParetoPlans &front) {
  return front.plans.size() < 2 ? "" : Chart(front).draw();
}

std::string emitParetoTable(const ParetoPlans &front) {
  std::string html =
      "<table>\n<tr>" + element("th", "plan") + cell("samples/s", "th") +
      cell(front.spent == Objective::Cost ? "$ per million samples" : "device-seconds", "th") +
      cell("proven bound", "th") + cell("$ per hour", "th") + cell("stages", "th") +
      cell("devices", "th") + "</tr>\n";
  for (size_t i = 0; i < front.plans.size(); ++i) {
    const Plan &plan = front.plans[i];
    html += "<tr>" + element("td", paretoPath(i) + (i == front.chosen ? ", shown above" : "")) +
            cell(number(speedOf(plan))) + cell(number(front.spentBy(plan))) +
            cell(boundOf(front, plan) > 0 ? number(boundOf(front, plan)) : "") +
            cell(number(plan.costPerHour.value())) + cell(std::to_string(plan.stages.size())) +
            cell(std::to_string(plan.deviceCount())) + "</tr>\n";
  }
  return html + "</table>\n";
}

} // namespace heterplan

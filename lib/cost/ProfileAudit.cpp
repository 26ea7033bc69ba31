#include "cost/ProfileAudit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

using namespace llvm;

namespace heterplan {

namespace {
constexpr size_t shownNoisy = 5;
constexpr double clockSlack = 0.1;

std::optional<std::chrono::sys_days> dayOf(StringRef date) {
  if (!isDate(date))
    return std::nullopt;
  int year = 0;
  unsigned month = 0, day = 0;
  date.substr(0, 4).getAsInteger(10, year);
  date.substr(5, 2).getAsInteger(10, month);
  date.substr(8, 2).getAsInteger(10, day);
  std::chrono::year_month_day whole{std::chrono::year(year), std::chrono::month(month),
                                    std::chrono::day(day)};
  return whole.ok() ? std::optional(std::chrono::sys_days(whole)) : std::nullopt;
}

/// "native, oneDNN 2.6.3" of "native, oneDNN 2.6.3, update by sgd".
StringRef software(StringRef engine) { return engine.split(", update by").first; }
/// "native" or "torch".
StringRef engineKind(StringRef engine) {
  return engine.take_until([](char c) { return c == ',' || c == ' '; });
}

std::string difference(const char *what, StringRef there, StringRef here) {
  return (Twine(what) + ": '" + there.take_front(100) + "' there, '" + here.take_front(100) +
          "' here")
      .str();
}

/// Megahertz at the start of `clocks`, or 0.
double megahertz(StringRef clocks) {
  double value = 0;
  return clocks.contains(" MHz") && !clocks.split(' ').first.getAsDouble(value) ? value : 0;
}

void compareEngine(const Profile &profile, const Surroundings &here, FileAudit &audit) {
  for (const std::string &engine : here.engines)
    if (engineKind(engine) == engineKind(profile.engine)) {
      if (software(engine) != software(profile.engine))
        audit.stale.push_back(difference("engine", software(profile.engine), software(engine)));
      return;
    }
  audit.notes.push_back(
      ("engine '" + StringRef(profile.engine).take_front(100) + "' is not here: not compared")
          .str());
}

void compareWithHere(const Profile &profile, const Surroundings &here, FileAudit &audit) {
  audit.ageDays = daysBetween(profile.date, here.date);
  audit.sameDevice = !profile.device.empty() && profile.device == here.device;
  if (!audit.sameDevice) {
    audit.notes.push_back("measured on another device: not compared with this machine");
    return;
  }
  if (profile.driver != here.driver)
    audit.stale.push_back(difference("driver", profile.driver, here.driver));
  compareEngine(profile, here, audit);
  double then = megahertz(profile.clocks), now = megahertz(here.clocks);
  if (then > 0 && now > 0 && std::abs(then - now) > clockSlack * then)
    audit.notes.push_back(difference("clocks", profile.clocks, here.clocks));
}

void judgeSpreads(const Profile &profile, FileAudit &audit) {
  std::vector<double> spreads;
  std::vector<const ProfileEntry *> order;
  for (const ProfileEntry &entry : profile.entries)
    if (entry.spread > 0) {
      spreads.push_back(entry.spread);
      order.push_back(&entry);
      audit.noisy += entry.spread > ProfileAudit::largeSpread;
    }
  audit.stated = spreads.size();
  if (spreads.empty())
    return;
  std::nth_element(spreads.begin(), spreads.begin() + spreads.size() / 2, spreads.end());
  audit.medianSpread = spreads[spreads.size() / 2];
  size_t shown = std::min(shownNoisy, order.size());
  std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                    [](const ProfileEntry *a, const ProfileEntry *b) {
                      return std::tie(b->spread, a) < std::tie(a->spread, b);
                    });
  for (size_t i = 0; i < shown; ++i)
    audit.noisiest.push_back(*order[i]);
}

FileAudit auditFile(const std::string &path, const Profile &profile, const Surroundings &here) {
  FileAudit audit;
  audit.path = path;
  audit.head.model = profile.model;
  audit.head.date = profile.date;
  audit.head.device = profile.device;
  audit.head.driver = profile.driver;
  audit.head.clocks = profile.clocks;
  audit.head.engine = profile.engine;
  audit.head.threads = profile.threads;
  audit.entries = profile.entries.size();
  StringSet<> layers;
  std::set<std::string> types;
  for (const ProfileEntry &entry : profile.entries) {
    layers.insert((entry.layer.empty() ? "s " : "l ") + entry.name() +
                  degreeText(entry.shardDegree));
    types.insert(entry.deviceType);
    bool first = audit.smallestBatch == Samples(0);
    audit.smallestBatch = first ? entry.batch : std::min(audit.smallestBatch, entry.batch);
    audit.largestBatch = std::max(audit.largestBatch, entry.batch);
  }
  audit.layers = layers.size();
  audit.deviceTypes.assign(types.begin(), types.end());
  judgeSpreads(profile, audit);
  compareWithHere(profile, here, audit);
  return audit;
}

std::string counted(size_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}
} // namespace

std::optional<int> daysBetween(StringRef from, StringRef to) {
  auto first = dayOf(from), last = dayOf(to);
  if (!first || !last)
    return std::nullopt;
  return static_cast<int>((*last - *first).count());
}

ProfileAudit auditProfiles(const std::vector<std::pair<std::string, Profile>> &profiles,
                           const Surroundings &here) {
  ProfileAudit audit;
  ProfileDatabase database;
  for (const auto &[path, profile] : profiles) {
    audit.files.push_back(auditFile(path, profile, here));
    append_range(audit.conflicts, database.add(profile, path));
  }
  LayerRegression regression(database, LayerGraph());
  audit.outliers = database.outliers();
  append_range(audit.outliers, regression.outliers());
  for (const LayerClass *trained : regression.classes())
    audit.classes.push_back(*trained);
  return audit;
}

std::vector<std::string> ProfileAudit::failures(std::optional<int> mostDays) const {
  std::vector<std::string> failures;
  for (const FileAudit &file : files) {
    if (!file.stale.empty())
      failures.push_back(file.path + ": measured with other software than there is now");
    if (double(file.noisy) > mostNoisy * double(file.stated))
      failures.push_back(file.path + ": " + std::to_string(file.noisy) + " of " +
                         counted(file.stated, "spread") + " are above 10%");
    if (mostDays && (!file.ageDays || *file.ageDays > *mostDays))
      failures.push_back(file.path +
                         (file.ageDays ? ": older than " : ": no date, so perhaps older than ") +
                         counted(*mostDays, "day"));
  }
  if (!conflicts.empty())
    failures.push_back(counted(conflicts.size(), "conflict"));
  if (!outliers.empty())
    failures.push_back(counted(outliers.size(), "outlier"));
  return failures;
}

} // namespace heterplan

// How far profiles can be trusted: how old and how noisy they are, whether they were measured with
// what this machine has now, what in them contradicts what.
#pragma once

#include "cost/LayerRegression.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// The environment of a measurement that would be made here and now.
struct Surroundings {
  std::string date;                 // "2026-01-31T10:00:00Z"
  std::string device, driver;       // as Profile has them
  std::string clocks;               // likewise
  std::vector<std::string> engines; // likewise; those that are here
};

/// Statements of one profile about its measurements.
struct FileAudit {
  std::string path;
  Profile head; // without entries, links and layers
  size_t entries = 0, layers = 0;
  std::vector<std::string> deviceTypes; // ascending
  Samples smallestBatch{}, largestBatch{};

  size_t stated = 0; // entries that state a spread
  size_t noisy = 0;  // of them, those above ProfileAudit::largeSpread
  double medianSpread = 0;
  std::vector<ProfileEntry> noisiest; // at most five, the worst first

  std::optional<int> ageDays;     // none where the profile has no date
  bool sameDevice = false;        // as here: only then is there anything to compare
  std::vector<std::string> stale; // "driver: 'Linux 5' there, 'Linux 6' here"
  std::vector<std::string> notes; // differences that do not make it stale
};

struct ProfileAudit {
  static constexpr double largeSpread = 0.1, mostNoisy = 0.05;

  std::vector<FileAudit> files;
  std::vector<ProfileWarning> conflicts, outliers; // outliers in batch, then in class
  std::vector<LayerClass> classes;

  /// Failed rules, as messages; empty if all hold. A profile fails when software of the device at
  /// hand has changed since, when more than mostNoisy of its entries are noisy, or when it is older
  /// than `mostDays` (none: of any age); together they fail on conflicts and outliers.
  std::vector<std::string> failures(std::optional<int> mostDays) const;
};

/// `profiles` by path; all go into one database, in order.
ProfileAudit auditProfiles(const std::vector<std::pair<std::string, Profile>> &profiles,
                           const Surroundings &here);

/// Whole days from one date to another, each as isDate() has it.
std::optional<int> daysBetween(llvm::StringRef from, llvm::StringRef to);

} // namespace heterplan

// Progress of long work, for the person at the terminal: one line on stderr that is rewritten in
// place, with the time left. Nothing is printed when stderr is a file or a pipe, so that logs and
// scripts see diagnostics only.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <string>

namespace heterplan {

/// One line of progress. Values are told; nothing is looked at unless they are.
class Progress {
public:
  /// Time since some fixed moment. Passed in, so that tests do not depend on a clock.
  using Clock = std::function<Seconds()>;

  /// Writes to `os` when `enabled`, at most once in `interval`.
  Progress(llvm::raw_ostream &os, std::string title, Clock clock, bool enabled,
           Seconds interval = Seconds(0.1));
  /// On stderr, by the steady clock, only when stderr is a terminal.
  static Progress onStandardError(std::string title);

  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  /// Erases the line.
  ~Progress();

  /// `done` is the share of work done, clamped to 0..1; `detail` is appended. The time left is
  /// shown from 1% on, once a second has passed: earlier it would be a guess.
  void update(double done, llvm::StringRef detail = "");
  /// Erases the line until the next update; call it before printing anything else.
  void clear();

private:
  llvm::raw_ostream &os;
  std::string title;
  Clock clock;
  bool enabled;
  Seconds interval;
  Seconds started;
  Seconds lastShown;
  bool shown = false;
};

/// A duration for people: "0.4 s", "12 s", "3 min 20 s", "2 h 5 min".
std::string durationText(Seconds duration);

} // namespace heterplan

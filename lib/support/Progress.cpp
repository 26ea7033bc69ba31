#include "support/Progress.h"

#include "llvm/Support/Format.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace heterplan {

namespace {
Seconds steadyClock() {
  std::chrono::duration<double> sinceStart = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(sinceStart.count());
}

/// Terminals are at least this wide; a longer line would wrap and could not be erased.
constexpr size_t widestLine = 79;
} // namespace

std::string durationText(Seconds duration) {
  std::string text;
  llvm::raw_string_ostream os(text);
  double seconds = std::max(0.0, duration.value());
  if (!std::isfinite(seconds) || seconds > 1e9)
    os << "very long";
  else if (seconds < 9.95)
    os << llvm::format("%.1f s", seconds);
  else if (seconds < 59.5)
    os << llvm::format("%.0f s", seconds);
  else if (int64_t whole = std::llround(seconds); whole < 3600)
    os << whole / 60 << " min " << whole % 60 << " s";
  else
    os << whole / 3600 << " h " << whole % 3600 / 60 << " min";
  return text;
}

Progress::Progress(llvm::raw_ostream &os, std::string title, Clock clock, bool enabled,
                   Seconds interval)
    : os(os), title(std::move(title)), clock(std::move(clock)), enabled(enabled),
      interval(interval), started(this->clock()), lastShown(started) {}

Progress Progress::onStandardError(std::string title) {
  return Progress(llvm::errs(), std::move(title), steadyClock, llvm::errs().is_displayed());
}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown)
    os << "\r\033[K";
  shown = false;
}

void Progress::update(double done, llvm::StringRef detail) {
  if (!enabled)
    return;
  Seconds now = clock();
  if (now - lastShown < interval)
    return;
  lastShown = now;
  done = std::isfinite(done) ? std::clamp(done, 0.0, 1.0) : 0.0;

  std::string line;
  llvm::raw_string_ostream text(line);
  text << title << llvm::format(" %3.0f%%", 100 * done);
  Seconds elapsed = now - started;
  if (done >= 0.01 && elapsed >= Seconds(1))
    text << ", " << durationText(elapsed * ((1 - done) / done)) << " left";
  if (!detail.empty())
    text << ", " << detail;
  text.flush();
  if (line.size() > widestLine)
    line.resize(widestLine);
  clear();
  os << line;
  os.flush();
  shown = true;
}

} // namespace heterplan

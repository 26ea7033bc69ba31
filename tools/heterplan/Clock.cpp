#include "Clock.h"

#include <ctime>

namespace heterplan {

std::string utcNow() {
  std::time_t time = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&time));
  return text;
}

} // namespace heterplan

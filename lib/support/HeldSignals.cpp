#include "support/HeldSignals.h"

namespace heterplan {

namespace {
constexpr int endings[] = {SIGINT, SIGTERM, SIGHUP};
}

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (int ending : endings)
    sigaddset(&held, ending);
  pthread_sigmask(SIG_BLOCK, &held, &before);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

bool HeldSignals::waiting() {
  sigset_t pending;
  sigpending(&pending);
  for (int ending : endings)
    if (sigismember(&pending, ending))
      return true;
  return false;
}

} // namespace heterplan

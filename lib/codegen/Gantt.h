// The chart of a Timeline: one row a stage, one box a pass.
#pragma once

#include "ir/Timeline.h"

#include <string>

namespace heterplan {

/// An SVG element: the first rank of each stage, from the start of the iteration to its end. ""
/// when there are no events. At most a few thousand boxes: longer timelines are cut, and say so.
std::string emitGantt(const Timeline &timeline);

} // namespace heterplan

// The memory that a plan counts beside its tensors, in words.
#pragma once

#include "ir/Plan.h"

#include <string>

namespace heterplan {

/// By device type, who says so, and what is kept free; "" for a plan that does not say.
std::string memoryText(const Plan &plan);

} // namespace heterplan

// The part of plan.json that only burst plans have: which stages follow which, device-seconds, idle
// gaps and background job, and what they were compared with. Private to lib/ir.
#pragma once

#include "ir/Plan.h"

namespace heterplan {

namespace v1 {
class Plan;
} // namespace v1

void writeBurst(const Plan &plan, v1::Plan &form);
void readBurst(const v1::Plan &form, Plan &plan);

} // namespace heterplan

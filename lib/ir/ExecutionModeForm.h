// Modes of stages in file forms: those of plans and of programs name their fields alike. Private to
// lib/ir.
#pragma once

#include "ir/ExecutionMode.h"
#include "ir/JsonForm.h"

namespace heterplan {

template <typename Message> void writeSharding(const StageSharding &sharding, Message &form) {
  form.set_state_sharding(nameOf(sharding.state));
}

/// Absent: nothing is divided.
template <typename Message>
StageSharding readSharding(const Message &form, const llvm::Twine &place, NameReader &names) {
  StageSharding sharding;
  if (!form.state_sharding().empty())
    sharding.state =
        names.named<StateSharding>(form.state_sharding(), stateShardings, place + ".stateSharding");
  return sharding;
}

template <typename Message> void writeModeRequest(const ModeRequest &asked, Message &form) {
  form.set_recompute(nameOf(asked.recompute));
  form.set_shard_state(asked.shardState ? nameOf(*asked.shardState) : "auto");
  if (asked.overlapsSums)
    form.set_overlap_grad_reduce(true);
  if (asked.overlapsTransfers)
    form.set_overlap_transfers(true);
}

/// Absent: auto.
template <typename Message> ModeRequest readModeRequest(const Message &form, NameReader &names) {
  ModeRequest asked;
  if (!form.recompute().empty())
    asked.recompute =
        names.named<RecomputePolicy>(form.recompute(), recomputePolicies, "recompute");
  if (!form.shard_state().empty() && form.shard_state() != "auto")
    asked.shardState = names.named<StateSharding>(form.shard_state(), stateShardings, "shardState");
  asked.overlapsSums = form.overlap_grad_reduce();
  asked.overlapsTransfers = form.overlap_transfers();
  return asked;
}

} // namespace heterplan

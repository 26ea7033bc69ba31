#include "ir/Profile.h"

#include "support/Statistics.h"

#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace llvm;

namespace heterplan {

namespace {
bool hasImages(LayerKind kind) {
  return kind == LayerKind::Convolution || kind == LayerKind::DepthwiseConvolution ||
         kind == LayerKind::Pooling;
}

bool isTime(Seconds time) { return std::isfinite(time.value()) && time.value() >= 0; }

Error verifySession(const MeasurementSession &session, const Location &place) {
  bool areTimes = isTime(session.forward) && isTime(session.backward) && isTime(session.update) &&
                  isTime(session.accumulate) && isTime(session.referenceKernel);
  if (!areTimes || !std::isfinite(session.spread) || session.spread < 0 || session.repetitions < 0)
    return Diagnostic(Diag::InvalidProfile, place)
           << "a figure of a session is negative or not finite";
  return Error::success();
}

Error verifyEntry(const ProfileEntry &entry, size_t index) {
  Location place{"", 0, 0, "entries[" + std::to_string(index) + "]"};
  if (entry.signature.empty() == entry.layer.empty())
    return Diagnostic(Diag::InvalidProfile, place)
           << "an entry names either a 'signature' or a 'layer', exactly one of them";
  if (entry.deviceType.empty())
    return Diagnostic(Diag::InvalidProfile, place) << "the entry has no device type";
  if (entry.shardDegree < 1 || entry.shardDegree > mostShards)
    return Diagnostic(Diag::InvalidProfile, {"", 0, 0, place.element + ".shardDegree"})
           << "a shard degree of " << entry.shardDegree << "; accepted is 1 to " << mostShards;
  if (entry.batch.value() < 1)
    return Diagnostic(Diag::InvalidProfile, place)
           << "the batch is " << entry.batch.value() << "; at least one sample is processed";
  if (!isTime(entry.forward) || !isTime(entry.backward) || !isTime(entry.accumulate) ||
      !isTime(entry.update.value_or(Seconds())))
    return Diagnostic(Diag::InvalidProfile, place) << "a time is negative or not finite";
  if (!std::isfinite(entry.spread) || entry.spread < 0 || entry.repetitions < 0)
    return Diagnostic(Diag::InvalidProfile, place)
           << "spread and repetitions are finite and not negative";
  for (const MeasurementSession &session : entry.sessions)
    if (Error error = verifySession(session, place))
      return error;
  return Error::success();
}

Error verifyLink(const LinkMeasurement &link, size_t index) {
  Location place{"", 0, 0, "links[" + std::to_string(index) + "]"};
  if (link.name.empty())
    return Diagnostic(Diag::InvalidProfile, place) << "the link has no name";
  const LinkSpeed own{link.bandwidth, link.latency};
  const LookupSpeed lookup = link.lookup.value_or(LookupSpeed{own, {}});
  for (const LinkSpeed &speed :
       {own, link.allReduce.value_or(own), link.reduceScatter.value_or(own),
        link.allGather.value_or(own), lookup.messages}) {
    if (!std::isfinite(speed.bandwidth.value()) || !(speed.bandwidth.value() > 0))
      return Diagnostic(Diag::InvalidProfile, place)
             << "bandwidth of link '" << link.name << "' is not positive";
    if (!isTime(speed.latency))
      return Diagnostic(Diag::InvalidProfile, place)
             << "latency of link '" << link.name << "' is negative or not finite";
  }
  if (!isTime(lookup.row))
    return Diagnostic(Diag::InvalidProfile, place)
           << "time of a row over link '" << link.name << "' is negative or not finite";
  for (double residual : {link.residual, link.allReduceResidual, link.reduceScatterResidual,
                          link.allGatherResidual, link.lookupResidual})
    if (!std::isfinite(residual) || residual < 0)
      return Diagnostic(Diag::InvalidProfile, place)
             << "a residual of link '" << link.name << "' is negative or not finite";
  if (!(link.overlapLoss >= 0 && link.overlapLoss <= 1))
    return Diagnostic(Diag::InvalidProfile, place)
           << "overlapLoss of link '" << link.name << "' is not between 0 and 1";
  return Error::success();
}

Error verifyMemory(ArrayRef<MemoryMeasurement> memory) {
  StringSet<> types;
  for (size_t i = 0; i < memory.size(); ++i) {
    const MemoryMeasurement &each = memory[i];
    Location place{"", 0, 0, "memory[" + std::to_string(i) + "]"};
    if (each.deviceType.empty())
      return Diagnostic(Diag::InvalidProfile, place) << "the memory is of no device type";
    if (!types.insert(each.deviceType).second)
      return Diagnostic(Diag::DuplicateName, place)
             << "the memory of '" << each.deviceType << "' is there twice";
    if (!std::isfinite(each.constant.value()) || each.constant < Bytes() ||
        !std::isfinite(each.factor) || each.factor < 1 || !std::isfinite(each.underWay) ||
        each.underWay < 1)
      return Diagnostic(Diag::InvalidProfile, place)
             << "memory has a constant that is not negative and factors of at least 1";
  }
  return Error::success();
}

Error verifyIterations(ArrayRef<IterationRatio> iterations) {
  for (size_t i = 0; i < iterations.size(); ++i) {
    const IterationRatio &each = iterations[i];
    Location place{"", 0, 0, "iterations[" + std::to_string(i) + "]"};
    if (each.deviceType.empty())
      return Diagnostic(Diag::InvalidProfile, place) << "the iterations are of no device type";
    for (size_t other = 0; other < i; ++other)
      if (iterations[other].deviceType == each.deviceType &&
          iterations[other].precision == each.precision)
        return Diagnostic(Diag::DuplicateName, place)
               << "the ratio of '" << each.deviceType << "' in " << nameOf(each.precision)
               << " is there twice";
    if (!std::isfinite(each.ratio) || each.ratio <= 0 || each.runs < 1 ||
        !std::isfinite(each.spread) || each.spread < 0)
      return Diagnostic(Diag::InvalidProfile, place)
             << "a ratio is positive, is of one run or more, and has a spread that is not negative";
  }
  return Error::success();
}

Error verifyLayer(const MeasuredLayer &layer, size_t index) {
  Location place{"", 0, 0, "layers[" + std::to_string(index) + "]"};
  if (layer.signature.empty())
    return Diagnostic(Diag::InvalidProfile, place) << "the measured layer has no signature";
  const LayerWork &work = layer.work;
  for (double figure :
       {work.forwardFlops.value(), work.backwardFlops.value(), work.forwardBytes.value(),
        work.backwardBytes.value(), work.parameterBytes.value()})
    if (!std::isfinite(figure) || figure < 0)
      return Diagnostic(Diag::InvalidProfile, place) << "its work is negative or not finite";
  return Error::success();
}
} // namespace

void ProfileEntry::add(const MeasurementSession &session) {
  sessions.push_back(session);
  auto over = [&](auto figure) {
    std::vector<double> values;
    for (const MeasurementSession &each : sessions)
      values.push_back(figure(each).value());
    return values;
  };
  forward = Seconds(trimmedMean(over([](const MeasurementSession &each) { return each.forward; })));
  backward =
      Seconds(trimmedMean(over([](const MeasurementSession &each) { return each.backward; })));
  update = Seconds(trimmedMean(over([](const MeasurementSession &each) { return each.update; })));
  accumulate =
      Seconds(trimmedMean(over([](const MeasurementSession &each) { return each.accumulate; })));
  spread = sessions.size() == 1 ? session.spread
                                : spreadOf(over(std::mem_fn(&MeasurementSession::pass)));
  constexpr int64_t most = std::numeric_limits<int>::max();
  repetitions = int(std::min(most, int64_t(repetitions) + session.repetitions));
}

int64_t ProfileEntry::missingSessions(int64_t wanted) const {
  return sessions.empty() ? 0 : std::max<int64_t>(0, wanted - int64_t(sessions.size()));
}

std::string degreeText(int degree) {
  return degree == 1 ? "" : " of degree " + std::to_string(degree);
}

LayerWork workOf(const Layer &layer) {
  return {layer.kind,         layer.forwardFlops,  layer.backwardFlops,
          layer.forwardBytes, layer.backwardBytes, layer.denseBytes()};
}

Error Profile::verify() const {
  for (size_t i = 0; i < entries.size(); ++i)
    if (Error error = verifyEntry(entries[i], i))
      return error;
  for (size_t i = 0; i < links.size(); ++i)
    if (Error error = verifyLink(links[i], i))
      return error;
  if (Error error = verifyMemory(memory))
    return error;
  if (Error error = verifyIterations(iterations))
    return error;
  StringSet<> signatures;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (Error error = verifyLayer(layers[i], i))
      return error;
    if (!signatures.insert(layers[i].signature).second)
      return Diagnostic(Diag::DuplicateName, {"", 0, 0, "layers[" + std::to_string(i) + "]"})
             << "the signature '" << layers[i].signature << "' is there twice";
  }
  return Error::success();
}

size_t dropOtherFormat(Profile &profile, MemoryFormat format, const LayerGraph &graph) {
  if (profile.memoryFormat == format)
    return 0;
  StringSet<> signatures, names;
  for (const Layer &layer : graph.layers)
    if (hasImages(layer.kind)) {
      signatures.insert(layer.signature);
      if (profile.model.empty() || profile.model == graph.model)
        names.insert(layer.name);
    }
  for (const MeasuredLayer &layer : profile.layers)
    if (hasImages(layer.work.kind))
      signatures.insert(layer.signature);
  const size_t before = profile.entries.size();
  erase_if(profile.entries, [&](const ProfileEntry &entry) {
    return entry.layer.empty() ? signatures.count(entry.signature) : names.count(entry.layer);
  });
  return before - profile.entries.size();
}

} // namespace heterplan

// Measured throughputs of whole iterations, as users know them: of which model, on which devices.
#pragma once

#include "ir/Profile.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// A throughput with what is known of its run. Texts are as options of `compile` have them; empty:
/// the default of that option.
struct MeasuredThroughput {
  std::string origin; // for messages: the option, or the file and line
  std::string model;  // a file
  std::string batch, precision, optimizer, microBatches, memoryFormat;
  std::string deviceType; // of the catalogue
  int64_t devices = 1;    // of one node
  double samplesPerSecond = 0;
};

/// "MODEL batch=256 precision=bf16 devices=1xrtx-3090 780/s". Usage, with what is accepted.
llvm::Expected<MeasuredThroughput> parseThroughput(llvm::StringRef text);
/// Rows with the columns model, batch, devices and throughput, and any of the other settings. Lines
/// that begin with '#' are comments. CannotRead, and Usage at a line.
llvm::Expected<std::vector<MeasuredThroughput>> readThroughputs(llvm::StringRef path);

/// A run beside what is modelled for it.
struct ComparedThroughput {
  MeasuredThroughput run;
  Precision precision = Precision::Fp32;
  Seconds modelled{}, measured{}; // of an iteration
  double ratio() const { return measured.value() / modelled.value(); }
};

/// Models the iteration of `run` as `compile` plans it, whether or not it fits the memory. Fails as
/// readPlanningInputs() does, and with Usage where no plan uses all of the devices.
llvm::Expected<ComparedThroughput> compareThroughput(const MeasuredThroughput &run);

/// The median ratio of each device type in each precision.
std::vector<IterationRatio> ratiosOf(llvm::ArrayRef<ComparedThroughput> runs);

} // namespace heterplan

// A certificate of a bound: Lagrange multipliers for intervals of the slowest stage and of the
// iteration. Whoever has the model, the cluster and the cost model works the bound out from them.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace heterplan {

/// Pipelines of one number of micro-batches whose slowest stage takes more than `slowestAbove`, and
/// whose iteration takes more than `iterationAbove`, up to where the next interval begins. Seconds.
struct CertifiedInterval {
  int microBatches = 1;
  double iterationAbove = 0, slowestAbove = 0;
  /// The prices of all devices of each type, of the whole budget, and of the seconds that an
  /// iteration may take: seconds, or dollars per hour times seconds if the objective is cost.
  std::vector<double> devices; // by Certificate::deviceTypes
  double budget = 0, seconds = 0;
  bool operator==(const CertifiedInterval &) const = default;
};

/// The intervals ascend by their numbers. A number of micro-batches that has none is bounded
/// without multipliers.
struct Certificate {
  std::string modelFingerprint, clusterFingerprint;
  std::vector<std::string> deviceTypes; // of the cluster, in its order
  std::vector<CertifiedInterval> intervals;
  bool operator==(const Certificate &) const = default;
};

/// The file form (docs/formats.md), and back; see FileForms.h.
std::string toJson(const Certificate &certificate);
llvm::Expected<Certificate> parseCertificate(llvm::StringRef text, llvm::StringRef path);
llvm::Expected<Certificate> readCertificate(llvm::StringRef path);

constexpr size_t mostCertifiedIntervals = 12'000;           // a file with more is refused
constexpr const char *certificateName = "certificate.json"; // beside plan.json

} // namespace heterplan

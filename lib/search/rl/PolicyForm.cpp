// The file form of a policy: a first line with version, kind, number of weights and a checksum of
// the rest, then a weight a line.
#include "search/rl/Policy.h"
#include "support/Diagnostic.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr const char *version = "2";

std::string checksumOf(StringRef body) {
  std::string result;
  raw_string_ostream(result) << format_hex_no_prefix(crc32(arrayRefFromStringRef(body)), 8);
  return result;
}
} // namespace

std::string Policy::text() const {
  std::string body;
  raw_string_ostream os(body);
  for (double weight : theta)
    os << format("%.9g", weight) << '\n';
  os.flush();
  return ("heterplan-policy " + Twine(version) + " " + nameOf(network) + " " + Twine(size()) + " " +
          checksumOf(body) + "\n" + body)
      .str();
}

Expected<Policy> Policy::parse(StringRef text, StringRef path, PolicyKind kind) {
  Policy policy(kind, 0);
  auto bad = [&](unsigned line) {
    return Diagnostic(Diag::Syntax, {path.str(), line, 1, ""})
        .note({}, "--policy-out of the same strategy writes such files");
  };
  auto [header, body] = text.split('\n');
  SmallVector<StringRef, 5> words;
  header.rtrim().split(words, ' ');
  if (words.size() != 5 || words[0] != "heterplan-policy")
    return bad(1) << "this is not a policy; its first line has to begin with 'heterplan-policy'";
  if (words[1] != version)
    return bad(1) << "the policy has version '" << words[1].take_front(20) << "', not '" << version
                  << "'";
  if (words[2] != nameOf(kind))
    return bad(1) << "the policy is of kind '" << words[2].take_front(20) << "', not '"
                  << nameOf(kind) << "'";
  if (words[3] != std::to_string(policy.size()))
    return bad(1) << "the policy has " << words[3].take_front(20) << " weights, not "
                  << policy.size();
  if (words[4] != checksumOf(body))
    return bad(1) << "the weights do not have the checksum '" << words[4].take_front(20)
                  << "': the file is damaged";
  SmallVector<StringRef, 0> lines;
  body.rtrim().split(lines, '\n');
  if (lines.size() != size_t(policy.size()))
    return bad(1) << "the policy has " << lines.size() << " weights, not " << policy.size();
  for (int i = 0; i < policy.size(); ++i) {
    double weight = 0;
    if (lines[i].trim().getAsDouble(weight) || !std::isfinite(weight) || std::abs(weight) > 1e6)
      return bad(unsigned(i + 2)) << "'" << lines[i].take_front(40)
                                  << "' is not a weight; weights lie within ±10^6";
    policy.theta[i] = weight;
  }
  return policy;
}

} // namespace heterplan

// The file form of a job of a state: its fields as in a jobs file, its workers with their times and
// plans, and its rows.
#pragma once

#include "search/jobs/online/State.h"
#include "support/JsonWriter.h"
#include "support/Yaml.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace heterplan::jobs {

constexpr int mostSlotsOfState = 1'000'000;

/// `number` as it is read again, with a unit after it.
std::string withUnit(double number, const char *unit);

/// Writes the rows of a job as the list `key`.
void writeRows(JsonWriter &json, const char *key, llvm::ArrayRef<SavedRow> rows);

void writeSavedJob(JsonWriter &json, const SavedJob &saved);
/// Errors are located: WrongType, MissingField, UnknownField, OutOfRange.
llvm::Error readSavedJob(const YamlNode &node, SavedJob &saved);

/// The status of a job: WrongType if it is unknown.
llvm::Error readStatus(const YamlNode &node, std::string &status);
/// Text that may be empty or long.
llvm::Error readAnyText(const YamlNode &node, const char *what, std::string &result);

/// Reads each item of a list; WrongType if `node` is none.
template <typename Item, typename Read>
llvm::Error readItems(const YamlNode &node, const char *what, std::vector<Item> &items, Read read) {
  if (node.kind != YamlNode::Kind::Sequence)
    return Diagnostic(Diag::WrongType, node.location) << what << " must be a list";
  for (const YamlNode &item : node.items)
    if (llvm::Error error = read(item, items.emplace_back()))
      return error;
  return llvm::Error::success();
}

} // namespace heterplan::jobs

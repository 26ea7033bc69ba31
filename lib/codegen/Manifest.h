// The files of a directory that heterplan wrote: `manifest.sha256` has a line for each file, as
// `sha256sum -c manifest.sha256` reads it. It binds the plan to its ranks, code and weights.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace heterplan {

/// SHA-256 in hex of each file, by its path below the directory.
using Manifest = std::map<std::string, std::string>;

constexpr const char *manifestName = "manifest.sha256";
/// The code of the whole model, beside that of a shard.
constexpr const char *wholeModelName = "whole_model.py";

/// Lists every file below `directory` except the manifest itself. Files of `known` are not read
/// again.
llvm::Expected<Manifest> makeManifest(llvm::StringRef directory, Manifest known = {});
std::string toText(const Manifest &manifest);
/// Fails with CannotRead where there is none, and with Syntax.
llvm::Expected<Manifest> readManifest(llvm::StringRef directory);

/// Whether heterplan gives this name to a file: the launcher would take such a one for part of the
/// plan.
bool isPackagePath(llvm::StringRef path);
/// Whether Python made it of a file of ours.
bool isBytecode(llvm::StringRef path);

/// A sentence for each file that is missing, changed, or would be taken for part of the plan
/// without being it.
llvm::Expected<std::vector<std::string>> mismatches(llvm::StringRef directory);

} // namespace heterplan
